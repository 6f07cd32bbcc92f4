"""Who is admitted when, by hand-made cases: pages of 4 positions, a context of 32."""

from dataclasses import replace

import pytest

from photon.cache.pages import PagePool
from photon.errors import RequestError
from photon.request import Prompt, Request, Token
from photon.scheduler.admission import Admission
from photon.scheduler.sequence import Sequence


def admission(num_pages: int = 100, *, max_rows: int = 8, max_prefill_tokens: int = 100) -> Admission:
    pool = PagePool(num_pages, 4)
    return Admission(pool, max_rows=max_rows, max_context=32, max_prefill_tokens=max_prefill_tokens)


def request(i: int, length: int, max_tokens: int = 4) -> Request:
    prompt = Prompt(tuple(Token(1) for _ in range(length)))
    return Request(i, prompt, max_tokens=max_tokens, limit_tokens=max_tokens, stop_ids=frozenset([0]))


def ids(sequences: list[Sequence]) -> list[int]:
    return [sequence.request.id for sequence in sequences]


def end(admission: Admission, sequence: Sequence) -> None:
    sequence.finalize("stop")
    admission.release(sequence)


def test_first_come_first_served_as_rows_allow() -> None:
    line = admission(max_rows=2)
    for i in range(3):
        line.add(request(i, 5))
    first, second = line.admit()
    assert ids([first, second]) == [0, 1] and {first.row, second.row} == {0, 1}
    assert line.num_waiting == 1 and line.num_free_rows == 0 and line.admit() == []
    end(line, first)
    assert [(s.request.id, s.row) for s in line.admit()] == [(2, 0)]


def test_a_prefill_takes_prompts_up_to_its_limit() -> None:
    line = admission(max_prefill_tokens=10)
    for i, length in enumerate([4, 6, 1]):
        line.add(request(i, length))
    assert ids(line.admit()) == [0, 1]
    assert ids(line.admit()) == [2]


def test_a_longer_prompt_is_taken_alone() -> None:
    line = admission(max_prefill_tokens=10)
    for i, length in enumerate([3, 20, 3]):
        line.add(request(i, length))
    assert [ids(line.admit()) for _ in range(3)] == [[0], [1], [2]]


def test_pages_are_reserved_for_the_worst_case_and_taken_by_none() -> None:
    line = admission(num_pages=5)
    line.add(request(0, 5, max_tokens=8))  # positions 0 to 11: 3 pages
    line.add(request(1, 5, max_tokens=9))  # 13 positions: 4 pages
    line.add(request(2, 1, max_tokens=1))  # would fit, but overtakes nobody
    (first,) = line.admit()
    assert first.max_pages == 3 and first.pages == ()
    assert line.admit() == [] and line.num_waiting == 2
    end(line, first)
    assert ids(line.admit()) == [1, 2]


@pytest.mark.parametrize(
    ("length", "max_tokens", "max_pages"), [(3, 1, 1), (4, 1, 1), (5, 1, 2), (4, 2, 2), (4, 5, 2), (4, 6, 3)]
)
def test_worst_case_around_a_pages_size(length: int, max_tokens: int, max_pages: int) -> None:
    line = admission()
    line.add(request(0, length, max_tokens))
    assert line.admit()[0].max_pages == max_pages


def test_the_context_bounds_the_worst_case() -> None:
    line = admission(num_pages=8)
    line.add(request(0, 31, max_tokens=1000))
    line.add(request(1, 20, max_tokens=1000))
    assert [s.limit for s in line.admit()] == [1]
    assert line.num_waiting == 1


def test_an_answer_mark_leaves_the_limit_to_limit_tokens() -> None:
    line = admission()
    line.add(replace(request(0, 5), max_tokens=3, limit_tokens=9))
    line.add(replace(request(1, 5), max_tokens=3, limit_tokens=9, answer_mark=7))
    assert [s.limit for s in line.admit()] == [3, 9]


def test_what_can_never_run_is_refused_with_both_numbers() -> None:
    line = admission(num_pages=3)
    with pytest.raises(RequestError, match="32 positions, the context has 32"):
        line.add(request(0, 32))
    with pytest.raises(RequestError, match="13 positions, KV memory has room for 12"):
        line.add(request(0, 10, max_tokens=4))
    line.add(request(0, 10, max_tokens=3))
    assert ids(line.admit()) == [0]


@pytest.mark.parametrize(
    ("bad", "message"), [(request(0, 0), "prompt is empty"), (request(0, 3, 0), "at least 1, got 0")]
)
def test_nothing_to_read_or_to_say_is_refused(bad: Request, message: str) -> None:
    line = admission()
    with pytest.raises(RequestError, match=message):
        line.add(bad)
    assert line.num_waiting == 0


def test_withdrawn_requests_leave_the_line() -> None:
    line = admission()
    for i in range(3):
        line.add(request(i, 5))
    assert line.withdraw(1) is not None and line.withdraw(1) is None
    assert ids(line.admit()) == [0, 2]


def test_p7_what_is_in_flight_is_not_released() -> None:
    line = admission()
    line.add(request(0, 5))
    (sequence,) = line.admit()
    sequence.finalize("cancelled")
    sequence.inflight_refs = 1
    with pytest.raises(AssertionError, match="P7"):
        line.release(sequence)
