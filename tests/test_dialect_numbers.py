"""Number ranges as grammar: every number of a long range is said exactly when it should be."""

from __future__ import annotations

import pytest
import xgrammar

from photon.dialects import ebnf
from photon.dialects.frame import BINS, PERCENT, PIXELS, THOUSAND, THOUSAND_OPEN, UNIT, Frame

PIECES = [b"\xff0", *(bytes([byte]) for byte in range(256))]


@pytest.fixture(scope="module")
def compiler() -> xgrammar.GrammarCompiler:
    info = xgrammar.TokenizerInfo(PIECES, xgrammar.VocabType.RAW, vocab_size=len(PIECES), stop_token_ids=[0])
    return xgrammar.GrammarCompiler(info, max_threads=1)


class Says:
    """Whether a rule says a text."""

    def __init__(self, compiler: xgrammar.GrammarCompiler, rule: str) -> None:
        self._matcher = xgrammar.GrammarMatcher(compiler.compile_grammar(f"root ::= {rule}"))

    def __call__(self, text: str) -> bool:
        self._matcher.reset()
        return all(self._matcher.accept_token(byte + 1) for byte in text.encode()) and self._matcher.accept_token(0)


@pytest.mark.parametrize(
    "top", [0, 1, 7, 9, 10, 19, 20, 99, 100, 109, 255, 640, 999, 1000, 1023, 1288, 9999, 10000, 12345, 19990, 20000]
)
def test_whole_numbers_exactly_up_to_the_top(compiler: xgrammar.GrammarCompiler, top: int) -> None:
    says = Says(compiler, ebnf.number(top))
    assert [n for n in range(20001) if says(str(n))] == list(range(top + 1))
    for text in ("", "00", "01", "007", f"0{top}", "-1", "+1", "1.0", "1e1", " 1", f"{top}0" if top else "10"):
        assert not says(text), text


@pytest.mark.parametrize(
    ("top", "decimals"), [(1000, 1), (1000, 3), (999, 1), (255, 2), (19999, 2), (7, 1), (12345, 4)]
)
def test_decimals_exactly_up_to_the_top(compiler: xgrammar.GrammarCompiler, top: int, decimals: int) -> None:
    says = Says(compiler, ebnf.number(top, decimals=decimals))
    written = {n: f"{n // 10**decimals}.{n % 10**decimals:0{decimals}d}" for n in range(20001)}
    assert [n for n, text in written.items() if says(text)] == list(range(top + 1))
    for text in ("0", "1", "100", "00.0", "01.5", ".5", "0.", "-0.1", f"0.{'0' * (decimals + 1)}"):
        assert not says(text), text


@pytest.mark.parametrize(("top", "width"), [(1023, 4), (999, 4), (0, 4), (9999, 4), (127, 3), (20000, 5)])
def test_padded_numbers_exactly_up_to_the_top(compiler: xgrammar.GrammarCompiler, top: int, width: int) -> None:
    says = Says(compiler, ebnf.padded_number(top, width))
    assert [n for n in range(20001) if says(f"{n:0{width}d}")] == list(range(top + 1))
    assert not any(says(f"{n:0{width - 1}d}") for n in range(10 ** (width - 1)) if n <= 1000)


@pytest.mark.parametrize(
    ("scale", "first", "middle", "last"),
    [
        (UNIT, "0.000", "0.500", "1.000"),
        (PERCENT, "0.0", "50.0", "100.0"),
        (THOUSAND, "0", "500", "1000"),
        (THOUSAND_OPEN, "0", "500", "999"),
        (BINS, "0000", "0512", "1023"),
        (PIXELS, "0", "644", "1288"),
    ],
)
def test_what_a_scale_writes_is_in_its_rule(compiler: xgrammar.GrammarCompiler, scale, first, middle, last) -> None:
    axis = scale.axes(Frame(1288, 728))[0]
    says = Says(compiler, axis.rule())
    assert [axis.write(x) for x in (0.0, 0.5, 1.0)] == [first, middle, last]
    assert axis.read(middle) == 0.5 and axis.read(first) == 0.0
    for n in range(4001):
        text = axis.write(n / 4000)
        assert says(text) and axis.write(axis.read(text)) == text


def test_numbers_past_the_edges_are_at_the_edges() -> None:
    x, y = PIXELS.axes(Frame(100, 50))
    assert [x.read(text) for text in ("-3", "101", "9" * 400, "100")] == [0.0, 1.0, 1.0, 1.0]
    assert y.read("25") == 0.5


def test_pixels_need_a_frame() -> None:
    with pytest.raises(ValueError, match="size of the picture"):
        PIXELS.axes(None)
    with pytest.raises(ValueError, match="1x1 pixels, got 0x5"):
        Frame(0, 5)


@pytest.mark.parametrize("text", ['"', "\\", "\n\t\r", "a cat", "naïve 猫 😀", "\x00\x7f\u200b", "$x", "%", "[a]{2}"])
def test_literals_say_themselves(compiler: xgrammar.GrammarCompiler, text: str) -> None:
    says = Says(compiler, ebnf.literal(text))
    assert says(text) and not says(text + "x") and not says("")
