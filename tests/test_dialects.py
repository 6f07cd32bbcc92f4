"""Every dialect in both directions: what is encoded is read back, whatever is read keeps the contract, at any cuts."""

from __future__ import annotations

import math
import random
from pathlib import Path

import pytest
from dialect_cases import CASES, FRAME, FRAMES, IDS, LABELS, coordinates, random_things, renamed

from photon.dialects.base import Dialect, Kind, Thing
from photon.dialects.frame import Frame
from photon.dialects.known import DIALECTS, check_spelling, find_dialect, missing_pieces
from photon.errors import ConfigError, RequestError
from photon.results import Box, Point

NUM_CASES = 10_000  # a dialect
# The largest difference between a place and what is read back, by hand: half a step, where the last step is there too.
TOLERANCE = {
    "qwen3-vl": 0.0005,
    "gemma": 0.0005,
    "json-unit": 0.0005,
    "json-percent": 0.0005,
    "molmo": 0.0005,
    "internvl": 0.0005,
    "qwen2-vl": 0.001,
    "paligemma": 1 / 1024,
}
NOISE = [
    "0", "7", "1000", "99999", "-5", "1e9", "NaN", "9" * 400, ".", ",", " ", '"', "\\", "[", "]", "{", "}", "(", ")",
    "<", ">", "\n", "```", "<loc0000>", "<loc9999>", "<point", ' x="', ' y="5"', ' x1="3" y1="900.5"', "</points>",
    "<ref>", "</ref>", "<box>", "</box>", '{"bbox_2d": [', '{"box_2d": [9, 8, 7, 6]', '"point_2d": [1, 2]',
    '"label": "', "(5,6),(1,2)", "猫", ";",
]  # fmt: skip


def tolerances(dialect: Dialect, frame: Frame) -> tuple[float, float]:
    if dialect.name == "qwen2.5-vl":
        return 0.5 / frame.width, 0.5 / frame.height
    return TOLERANCE[dialect.name], TOLERANCE[dialect.name]


def assert_contract(things: tuple[Thing, ...], kind: Kind) -> None:
    assert isinstance(things, tuple)
    for thing in things:
        assert isinstance(thing, Point if kind == "point" else Box)
        assert all(math.isfinite(value) and 0 <= value <= 1 for value in coordinates(thing))
        if isinstance(thing, Box):
            assert thing.x_min <= thing.x_max and thing.y_min <= thing.y_max


def num_cases(dialect: Dialect) -> int:
    return NUM_CASES // (dialect.points + dialect.boxes)


def one_name(dialect: Dialect) -> bool:
    return dialect.name in ("molmo", "internvl")


def random_answer(dialect: Dialect, kind: Kind, rng: random.Random, most: int = 3) -> list[Thing]:
    labels = LABELS[:3] if dialect.name == "internvl" else LABELS
    options = [*labels, None]
    return random_things(rng, kind, rng.randint(0, most), [rng.choice(options)] if one_name(dialect) else options)


@pytest.mark.parametrize(("dialect", "kind"), CASES, ids=IDS)
def test_decode_is_the_inverse_of_encode_to_the_resolution(dialect: Dialect, kind: Kind) -> None:
    rng = random.Random(f"{dialect.name}{kind}")
    for _ in range(num_cases(dialect)):
        frame = rng.choice(FRAMES)
        things = random_answer(dialect, kind, rng)
        text = dialect.encode(things, frame=frame)
        reading = dialect.decode(text, kind, frame=frame)
        assert not reading.is_cut
        assert_contract(reading.things, kind)
        assert [thing.label for thing in reading.things] == [thing.label for thing in things]
        for said, read in zip(things, reading.things, strict=True):
            for n, (place, back) in enumerate(zip(coordinates(said), coordinates(read), strict=True)):
                assert abs(place - back) <= tolerances(dialect, frame)[n % 2] + 1e-12
        # What has been read lies on the grid: it is said and read again without any change.
        assert dialect.encode(reading.things, frame=frame) == text


@pytest.mark.parametrize(("dialect", "kind"), CASES, ids=IDS)
def test_contract_holds_for_10_000_answers_said_without_a_grammar(dialect: Dialect, kind: Kind) -> None:
    """Cut, mangled and hostile texts: finite, within [0, 1], corners in order, the complete leading things kept."""
    rng = random.Random(f"{kind}{dialect.name}")
    for _ in range(num_cases(dialect)):
        things = random_answer(dialect, kind, rng, most=2)
        text = dialect.encode(things, frame=FRAME)
        whole = dialect.decode(text, kind, label="cat", frame=FRAME).things
        cut = rng.randint(0, len(text))
        leading = dialect.decode(text[:cut], kind, label="cat", frame=FRAME).things
        assert leading == whole[: len(leading)]
        mangled = "".join(rng.choice(NOISE) for _ in range(rng.randint(0, 6)))
        text = text[:cut] + mangled + text[rng.randint(0, cut) :]
        assert_contract(dialect.decode(text, kind, label=rng.choice(("cat", None)), frame=FRAME).things, kind)


@pytest.mark.parametrize(("dialect", "kind"), CASES, ids=IDS)
def test_a_reader_fed_in_pieces_gives_what_decode_gives(dialect: Dialect, kind: Kind) -> None:
    rng = random.Random(f"pieces{dialect.name}{kind}")
    for number in range(1500):
        text = dialect.encode(random_answer(dialect, kind, rng), frame=FRAME)
        if number % 2:
            cut = rng.randint(0, len(text))
            text = text[:cut] + "".join(rng.choice(NOISE) for _ in range(rng.randint(0, 8))) + text[cut:]
        label = rng.choice(("cat", None))
        reader = dialect.reader(kind, label=label, frame=FRAME)
        things: list[Thing] = []
        position = 0
        while position < len(text):
            size = rng.choice((1, 1, 2, 3, 5, 8, 40))
            things += reader.feed(text[position : position + size])
            position += size
        things += reader.end()
        whole = dialect.decode(text, kind, label=label, frame=FRAME)
        assert (tuple(things), reader.is_cut) == (whole.things, whole.is_cut), text


@pytest.mark.parametrize(("dialect", "kind"), CASES, ids=IDS)
def test_a_thing_comes_with_the_character_that_completes_it(dialect: Dialect, kind: Kind) -> None:
    """With a name asked for: at the last digit's closing mark, or in JSON at the object's; never later."""
    things = renamed(random_things(random.Random(5), kind, 3, ["cat"]), "cat")
    text = dialect.encode(things, frame=FRAME)
    reader = dialect.reader(kind, label="cat", frame=FRAME)
    ends = [n for n, char in enumerate(text) if reader.feed(char)]
    closing = {"qwen2-vl": ")", "paligemma": ">", "molmo": '"', "internvl": "]"}.get(dialect.name, "}")
    assert len(ends) == 3 and all(text[n] == closing for n in ends)
    per_thing = {"qwen2-vl": 2, "paligemma": 4, "molmo": 4}.get(dialect.name, 1)
    places = [n for n, char in enumerate(text) if char == closing]
    assert ends == places[per_thing - 1 : 3 * per_thing : per_thing]


@pytest.mark.parametrize(("dialect", "kind"), CASES, ids=IDS)
def test_an_answer_that_is_cut_says_so_and_keeps_its_complete_things(dialect: Dialect, kind: Kind) -> None:
    things = random_things(random.Random(7), kind, 4, ["cat"])
    text = dialect.encode(things, frame=FRAME)
    whole = dialect.decode(text, kind, label="cat", frame=FRAME)
    assert not whole.is_cut and len(whole.things) == 4
    reader = dialect.reader(kind, label="cat", frame=FRAME)
    ends = [n + 1 for n, char in enumerate(text) if reader.feed(char)]
    for begin, end in zip(ends, ends[1:], strict=False):
        for cut in range(begin, end):
            assert len(dialect.decode(text[:cut], kind, label="cat", frame=FRAME).things) == ends.index(begin) + 1
        reading = dialect.decode(text[: end - 1], kind, label="cat", frame=FRAME)
        assert reading.is_cut and reading.things == whole.things[: ends.index(begin) + 1]
    has_closing_mark = dialect.name not in ("paligemma", "qwen2-vl")
    assert [dialect.decode(text[:end], kind, label="cat", frame=FRAME).is_cut for end in ends] == 4 * [has_closing_mark]


@pytest.mark.parametrize(("dialect", "kind"), CASES, ids=IDS)
@pytest.mark.parametrize(
    "prose", ["", "There are none.", "I see no cats in this picture, sorry.", "[]", "```json\n[]\n```"]
)
def test_nothing_found_is_an_empty_answer_of_the_same_type(dialect: Dialect, kind: Kind, prose: str) -> None:
    for text in (prose, dialect.encode([], frame=FRAME)):
        reading = dialect.decode(text, kind, frame=FRAME)
        assert reading.things == () and not reading.is_cut


@pytest.mark.parametrize(("dialect", "kind"), [case for case in CASES if case[1] == "box"])
def test_corners_given_backwards_are_put_in_order(dialect: Dialect, kind: Kind) -> None:
    text = dialect.encode([Box(0.25, 0.125, 0.75, 0.5)], frame=FRAME)
    forward = {"qwen2.5-vl": ("322", "91", "966", "364"), "paligemma": ("0128", "0256", "0512", "0768")}.get(
        dialect.name
    )
    if forward is None:
        scale = {"json-unit": ("0.250", "0.125", "0.750", "0.500"), "json-percent": ("25.0", "12.5", "75.0", "50.0")}
        forward = scale.get(dialect.name, ("250", "125", "750", "500"))
        forward = ("125", "250", "500", "750") if dialect.name == "gemma" else forward
    a, b, c, d = forward
    for number in forward:
        assert number in text
    swapped = text
    for n, number in enumerate(forward):
        swapped = swapped.replace(number, f"@{n}", 1)
    for n, number in enumerate((c, d, a, b)):
        swapped = swapped.replace(f"@{n}", number)
    assert swapped != text
    things = dialect.decode(swapped, kind, frame=FRAME).things
    assert things == (Box(0.25, 0.125, 0.75, 0.5),)


def test_the_orders_and_frames_by_hand() -> None:
    box = Box(0.1, 0.2, 0.3, 0.4, label="dog")
    frame = Frame(640, 480)
    said = {name: DIALECTS[name].encode([box], frame=frame) for name in DIALECTS if DIALECTS[name].boxes}
    assert said == {
        "qwen2.5-vl": '```json\n[\n\t{"bbox_2d": [64, 96, 192, 192], "label": "dog"}\n]\n```',
        "qwen3-vl": '```json\n[\n\t{"bbox_2d": [100, 200, 300, 400], "label": "dog"}\n]\n```',
        "gemma": '```json\n[\n  {"box_2d": [200, 100, 400, 300], "label": "dog"}\n]\n```',
        "json-unit": '```json\n[\n\t{"bbox_2d": [0.100, 0.200, 0.300, 0.400], "label": "dog"}\n]\n```',
        "json-percent": '```json\n[\n\t{"bbox_2d": [10.0, 20.0, 30.0, 40.0], "label": "dog"}\n]\n```',
        "qwen2-vl": "<|object_ref_start|>dog<|object_ref_end|><|box_start|>(100,200),(300,400)<|box_end|>",
        "paligemma": "<loc0205><loc0102><loc0410><loc0307> dog",
        "internvl": "<ref>dog</ref><box>[[100, 200, 300, 400]]</box>",
    }
    point = Point(0.635, 0.445, label="Mt Rainier")
    assert DIALECTS["molmo"].encode([point]) == '<point x="63.5" y="44.5" alt="Mt Rainier">Mt Rainier</point>'
    assert DIALECTS["gemma"].encode([point]) == '```json\n[\n  {"point": [445, 635], "label": "Mt Rainier"}\n]\n```'


@pytest.mark.parametrize(
    "text",
    [
        '{"bbox_2d": [100, 200, 300, 400], "label": "dog"}',
        '{"objects": [{"label": "dog", "bbox_2d": [100,200,300,400]}]}',
        '{"answer": {"bbox_2d": ["100", "200", "300.0", "400"], "label": "dog", "score": 0.9}}',
        'Here it is:\n\n```json\n{"label":"dog","bbox_2d":[ 100 , 200 , 300 , 400 ]}\n```\nAnything else?',
        '[{"bbox_2d": [1, 2, 3]}, {"note": "bbox_2d [1, 2, 3, 4]"}, {"bbox_2d": [300, 400, 100, 200], "label": "dog"}]',
    ],
)
def test_json_is_read_in_any_layout(text: str) -> None:
    reading = DIALECTS["qwen3-vl"].decode(text, "box")
    assert reading.things == (Box(0.1, 0.2, 0.3, 0.4, label="dog"),) and not reading.is_cut


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("internvl", "<ref>a [1, 2, 3, 4] b</ref><box>[[5, 6, 7, 8]]</box>"),
        ("qwen2-vl", "<|object_ref_start|>a (1,2),(3,4) b<|object_ref_end|><|box_start|>(5,6),(7,8)<|box_end|>"),
        ("qwen3-vl", '[{"label": "{\\"bbox_2d\\": [1, 2, 3, 4]}", "bbox_2d": [5, 6, 7, 8]}]'),
    ],
)
def test_numbers_within_a_name_are_read_alike_at_any_cuts(name: str, text: str) -> None:
    dialect = DIALECTS[name]
    reader = dialect.reader("box")
    things = [thing for char in text for thing in reader.feed(char)]
    assert tuple(things) == dialect.decode(text, "box").things
    assert coordinates(things[-1]) == (0.005, 0.006, 0.007, 0.008)


def test_a_name_is_for_the_box_that_follows_it() -> None:
    named = DIALECTS["qwen2-vl"].encode([Box(0, 0, 0.5, 0.5, label="dog")])
    nameless = DIALECTS["qwen2-vl"].encode([Box(0, 0, 0.5, 0.5)])
    things = DIALECTS["qwen2-vl"].decode(named + nameless, "box").things
    assert [thing.label for thing in things] == ["dog", None]
    assert DIALECTS["qwen2-vl"].decode("<|object_ref_start|>dog<|object_ref_end|>", "box").is_cut


def test_location_tokens_are_read_line_by_line_too() -> None:
    text = "<loc0256><loc0512><loc0512><loc1023> a dog\n<loc0000><loc0000><loc0512><loc0512>\n"
    things = DIALECTS["paligemma"].decode(text, "box").things
    assert things == (Box(0.5, 0.25, 1023 / 1024, 0.5, label="a dog"), Box(0, 0, 0.5, 0.5))


def test_marks_that_a_detokenizer_leaves_out_are_not_missed() -> None:
    """Special tokens say nothing in a decoded text: the numbers and the name asked for are enough."""
    box = Box(0.1, 0.2, 0.3, 0.4, label="dog")
    for name in ("internvl", "qwen2-vl"):
        dialect = DIALECTS[name]
        text = dialect.encode([box, box])
        for mark in dialect.marks:
            text = text.replace(mark, "")
        reading = dialect.decode(text, "box", label="dog")
        assert (reading.things, reading.is_cut) == ((box, box), False)


def test_labels_that_a_dialect_cannot_carry_are_refused() -> None:
    for name, label in (
        ("paligemma", "cat ; dog"),
        ("internvl", "a</ref>"),
        ("qwen2-vl", "cat (left)"),
        ("internvl", "a\nb"),
    ):
        box = Box(0, 0, 1, 1, label=label)
        with pytest.raises(RequestError, match=f"dialect {name} may not contain"):
            DIALECTS[name].encode([box])
        with pytest.raises(RequestError, match=f"dialect {name} may not contain"):
            DIALECTS[name].grammar("box", label=label, max_objects=3)
    for label in ("", " ", " cat", "\ud800"):
        with pytest.raises(RequestError, match="without blanks around it"):
            DIALECTS["qwen3-vl"].grammar("box", label=label, max_objects=3)


def test_hard_labels_survive_where_a_dialect_can_carry_them() -> None:
    for label in ('a "quoted" \\ {b} [c]', "<b> & &lt; 'x'", "line\nbreak\ttab", "😀", "]}"):
        for name in ("qwen3-vl", "molmo"):
            point = Point(0.5, 0.25, label=label)
            assert DIALECTS[name].decode(DIALECTS[name].encode([point]), "point").things == (point,)


def test_kinds_counts_and_names_that_do_not_exist_are_refused() -> None:
    with pytest.raises(RequestError, match="dialect molmo has no way to say a box; it says points"):
        DIALECTS["molmo"].grammar("box", max_objects=1)
    with pytest.raises(RequestError, match="dialect paligemma has no way to say a point; it says boxes"):
        DIALECTS["paligemma"].encode([Point(0, 0)])
    with pytest.raises(RequestError, match="points and boxes cannot stand in one answer"):
        DIALECTS["qwen3-vl"].encode([Point(0, 0), Box(0, 0, 1, 1)])
    with pytest.raises(RequestError, match="one name, got 'a' and 'b'"):
        DIALECTS["molmo"].encode([Point(0, 0, label="a"), Point(0, 0, label="b")])
    with pytest.raises(RequestError, match="max_objects must be at least 1, got 0"):
        DIALECTS["qwen3-vl"].grammar("box", max_objects=0)
    with pytest.raises(RequestError, match="unknown dialect 'qwen'; known dialects: gemma, internvl"):
        find_dialect("qwen")
    assert find_dialect("molmo") is DIALECTS["molmo"]


def test_spelling_names_what_a_vocabulary_lacks_and_what_it_can_spell() -> None:
    every_byte = [bytes([byte]) for byte in range(256)]
    marks = {f"<loc{n:04d}>": 300 + n for n in range(1024)}
    for dialect in DIALECTS.values():
        assert missing_pieces(dialect, every_byte, marks) == []
        check_spelling(dialect, every_byte, marks)
    with pytest.raises(ConfigError, match=r"paligemma: it lacks '<loc0000>', .* \(1024 in all\); .*: gemma, internvl"):
        check_spelling(DIALECTS["paligemma"], every_byte, {})
    no_seven = [piece for piece in every_byte if piece != b"7"]
    with pytest.raises(ConfigError, match=r"qwen3-vl: it lacks '7' \(1 in all\); .* can spell: paligemma$"):
        check_spelling(DIALECTS["qwen3-vl"], no_seven, marks)
    assert missing_pieces(DIALECTS["internvl"], [*no_seven, b"17"], {}) == ["7"]


def test_a_vocabulary_may_spell_with_longer_pieces() -> None:
    words = [
        b"```json\n[",
        b"]\n```",
        b'\n\t{"',
        b',\n\t{"',
        b"point",
        b"bbox",
        b'_2d": [',
        b", ",
        b'], "label": "',
        b'"}',
        b"\n",
    ]
    digits = [str(n).encode() for n in range(10)]
    assert missing_pieces(DIALECTS["qwen3-vl"], words + digits, {}) == []
    assert "_" in missing_pieces(DIALECTS["qwen3-vl"], [*words[:6], *words[7:], *digits], {})
    corner_marks = {text: 300 + n for n, text in enumerate(DIALECTS["qwen2-vl"].marks)}
    assert missing_pieces(DIALECTS["qwen2-vl"], [b"(", b")", b",", *digits], corner_marks) == []
    assert "<" in missing_pieces(DIALECTS["qwen2-vl"], [b"(", b")", b",", *digits], {})


def test_the_page_on_dialects_has_a_row_for_each() -> None:
    page = (Path(__file__).parent.parent / "docs" / "dialects.md").read_text(encoding="utf-8")
    assert [name for name in DIALECTS if f"\n| `{name}` | " not in page] == []
