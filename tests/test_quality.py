"""Scores against values worked out by hand."""

import pytest

from photon.bench import quality
from photon.bench.quality import Matches

UNIT = (0.0, 0.0, 1.0, 1.0)


def test_iou_of_halves_and_of_strangers() -> None:
    assert quality.iou(UNIT, UNIT) == 1
    assert quality.iou((0, 0, 0.5, 1), UNIT) == pytest.approx(0.5)
    # Common 0.25 x 0.5 = 0.125; areas 0.25 each; 0.125 / 0.375 = 1/3.
    assert quality.iou((0, 0, 0.5, 0.5), (0.25, 0, 0.75, 0.5)) == pytest.approx(1 / 3)
    assert quality.iou((0, 0, 0.2, 0.2), (0.2, 0, 0.4, 0.2)) == 0


def test_a_truth_is_matched_once_and_by_the_best_answer() -> None:
    truth = (0.0, 0.0, 0.4, 0.4)
    close, exact = (0.0, 0.0, 0.4, 0.3), truth
    assert quality.match_boxes([close, exact], [truth]) == Matches(hits=1, extra=1, missed=0)
    assert quality.match_boxes([close], [truth], at_least=0.8) == Matches(hits=0, extra=1, missed=1)
    # The answer nearest to the first truth is still free for it: pairing is by overlap, not by order.
    other = (0.0, 0.0, 0.4, 0.28)
    assert quality.match_boxes([close, exact], [other, truth]) == Matches(hits=2, extra=0, missed=0)


def test_f1_from_counts() -> None:
    assert Matches(hits=3, extra=1, missed=2).f1 == pytest.approx(6 / 9)
    assert Matches().f1 == 1
    assert (Matches(1, 0, 0) + Matches(0, 1, 1)).f1 == pytest.approx(0.5)


def test_points_hit_each_object_once() -> None:
    left, right = (0.0, 0.0, 0.4, 1.0), (0.6, 0.0, 1.0, 1.0)
    assert quality.match_points([(0.2, 0.5), (0.8, 0.5)], [left, right]) == Matches(2, 0, 0)
    assert quality.match_points([(0.2, 0.5), (0.3, 0.5)], [left, right]) == Matches(1, 1, 1)
    assert quality.match_points([(0.5, 0.5)], [left, right]) == Matches(0, 1, 2)
    assert quality.point_hit_rate(Matches(1, 1, 1)) == 0.5
    assert quality.point_hit_rate(Matches(0, 0, 0)) == 1


def test_texts_are_equal_but_for_case_spaces_and_a_full_stop() -> None:
    assert quality.is_same_text(" Yes.", "yes")
    assert not quality.is_same_text("yes, two", "yes")


def test_nouns_are_found_as_whole_words_and_once() -> None:
    assert quality.noun_recall("A dog and two bananas.", [("dog", "dogs"), ("banana", "bananas")]) == 1
    assert quality.noun_recall("A carrot.", ["car"]) == 0
    assert quality.noun_recall("Two racing cars.", [("car", "cars"), ("racing car", "racing cars")]) == 0.5
    assert quality.noun_recall("Anything.", []) == 1


def test_chance_levels() -> None:
    assert quality.chance_of_commonest(["Yes", "yes.", "No"]) == pytest.approx(2 / 3)
    assert quality.chance_of_commonest([]) == 0
    # The mean of the two boxes is (0, 0, 0.75, 1): IoU with the first 0.5 / 0.75 = 2/3, with the second 0.75.
    half = (0.0, 0.0, 0.5, 1.0)
    assert quality.chance_of_fixed_box([[half], [UNIT]]) == Matches(2, 0, 0)
    assert quality.chance_of_middle_point([[half], [(0.6, 0.6, 1.0, 1.0)]]) == 0.5
    assert quality.share([True, False, False, True]) == 0.5


# --- intervals


@pytest.mark.parametrize(
    ("right", "count", "low", "high"),
    # As in published tables of Wilson's interval at z = 1.96.
    [(8, 10, 0.490, 0.943), (0, 10, 0.0, 0.278), (10, 10, 0.722, 1.0), (50, 100, 0.404, 0.596), (0, 0, 0.0, 1.0)],
)
def test_interval_of_a_share(right: int, count: int, low: float, high: float) -> None:
    assert quality.interval_of_share(right, count) == (pytest.approx(low, abs=5e-4), pytest.approx(high, abs=5e-4))


def test_interval_of_a_mean_is_that_of_the_normal_law_for_many() -> None:
    values = [0.0, 0.5, 1.0, 1.0] * 100
    mean, half = 0.625, 1.96 * (0.171875 / 400) ** 0.5  # the variance of the four, over their number
    low, high = quality.interval_of_mean(values)
    assert (low, high) == (pytest.approx(mean - half, abs=0.005), pytest.approx(mean + half, abs=0.005))


def test_intervals_of_matches() -> None:
    """Where all questions are alike, there is nothing to vary; where half of them are missed, there is."""
    alike = [Matches(2, 1, 1)] * 30
    assert quality.interval_of_f1(alike) == (pytest.approx(4 / 6), pytest.approx(4 / 6))
    assert quality.interval_of_hits(alike) == (pytest.approx(2 / 3), pytest.approx(2 / 3))
    # One object a question, and nothing said for the half: the share of hits is that of a coin, whose spread among 100
    # is 0.05; F1 is 2p / (1 + p).
    halves = [Matches(1, 0, 0), Matches(0, 0, 1)] * 50
    low, high = quality.interval_of_hits(halves)
    assert (low, high) == (pytest.approx(0.402, abs=0.012), pytest.approx(0.598, abs=0.012))
    expected = [2 * p / (1 + p) for p in (low, high)]
    assert quality.interval_of_f1(halves) == tuple(pytest.approx(e, abs=0.012) for e in expected)
    assert quality.interval_of_f1([]) == (0.0, 1.0)
