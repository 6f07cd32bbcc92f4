"""Stop strings: the filter, the watch, what is streamed and what is parsed, all against `min(text.find(stop))`."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, cast

import pytest
from test_readers import coordinate
from test_scheduler import SCRIPT, ScriptedRunner, drain, news, request, said, scheduler

from photon.chunks import Chunk, ReasoningDelta, TextDelta
from photon.constraint.compiler import ConstraintCompiler
from photon.constraint.vocabulary import Vocabulary
from photon.errors import RequestError
from photon.models.recipes import recipe_from_config
from photon.request import Logprobs, Sampling, Token
from photon.results import CaptionResult, FinishReason, Metrics, QueryResult
from photon.tasks import CaptionTask, QueryTask, Task, TaskContext
from photon.text.detokenizer import Detokenizer
from photon.text.stops import StopFilter, StopStrings
from photon.text.tokenizer import Tokenizer

CONFIG = Path(__file__).parent / "data" / "moondream2_tiny" / "config.json"
MARK, FIRST = 3, 16  # the answer mark, and the id of a context's first piece


@cache
def context(pieces: tuple[bytes, ...]) -> TaskContext:
    """A context in which id FIRST + i says pieces[i]; the ids before are special."""
    text_bytes = (b"",) * FIRST + pieces
    tokenizer = cast(Tokenizer, type("Pieces", (), {"text_bytes": text_bytes}))
    vocabulary = Vocabulary.build(text_bytes, special_ids=range(FIRST), vocab_size=len(text_bytes), stop_ids=[0])
    return TaskContext(
        recipe=recipe_from_config("golden", json.loads(CONFIG.read_text())),
        encode=lambda text: [],
        decode=lambda ids: b"".join(text_bytes[i] for i in ids).decode(errors="replace"),
        detokenizer=lambda: Detokenizer(tokenizer),
        image_length=4,
        max_context=2048,
        constraints=ConstraintCompiler(vocabulary),
    )


def ids_of(pieces: Sequence[bytes]) -> list[int]:
    return [FIRST + i for i in range(len(pieces))]


def cut(text: str, stops: Sequence[str]) -> str:
    """The oracle."""
    return text[: min([text.find(stop) for stop in stops if stop in text], default=len(text))]


def num_heard(pieces: Sequence[bytes], stops: Sequence[str]) -> int:
    """How many pieces are said: until whole characters of theirs hold a stop string. The text is valid UTF-8."""
    for n in range(1, len(pieces) + 1):
        text = b"".join(pieces[:n]).decode(errors="ignore")  # all but half a character at the end
        if any(stop in text for stop in stops):
            return n
    return len(pieces)


def listen(watch: StopStrings, ids: Sequence[int]) -> int:
    """How many of the ids are heard."""
    return next((n for n, i in enumerate(ids, 1) if watch.heard(i)), len(ids))


def stream(task: Task, at: TaskContext, tokens: Sequence[Token], rng: random.Random) -> list[Chunk]:
    reader, chunks, start = task.reader(at), [], 0
    while start < len(tokens):
        end = start + rng.randint(1, 3)
        chunks += reader.read(tokens[start:end])
        start = end
    return [*chunks, *reader.end()]


def joined(chunks: Sequence[Chunk], kind: type[TextDelta] | type[ReasoningDelta] = TextDelta) -> str:
    return "".join(chunk.text for chunk in chunks if isinstance(chunk, kind))


def random_pieces(rng: random.Random, text: str) -> tuple[bytes, ...]:
    """The text's bytes, cut anywhere: within characters too."""
    data, pieces = text.encode(), []
    while data:
        size = rng.choice([1, 1, 2, 3, 5])
        pieces.append(data[:size])
        data = data[size:]
    return tuple(pieces)


@pytest.mark.parametrize("alphabet", ["ab", "ab ", "aé猫", "猫🚀 "])
@pytest.mark.parametrize("seed", range(150))
def test_any_text_in_any_tokens_ends_before_the_first_stop_string(alphabet: str, seed: int) -> None:
    rng = random.Random(f"{alphabet}{seed}")
    text = "".join(rng.choices(alphabet, k=rng.randint(0, 30)))
    stops = ["".join(rng.choices(alphabet, k=rng.choice([1, 2, 3, 4, 6]))) for _ in range(rng.choice([1, 2, 2, 4]))]
    pieces = random_pieces(rng, text)
    at, ids, n = context(pieces), ids_of(pieces), num_heard(pieces, stops)
    assert listen(StopStrings(stops, at.detokenizer()), ids) == n
    expected = cut(b"".join(pieces[:n]).decode(errors="ignore"), stops)
    if not any(a != b and a in b for a in stops for b in stops):
        assert expected == cut(text, stops), "where none holds another, how the text is cut into tokens plays no part"
    tokens = [Token(i) for i in ids[:n]]
    task = CaptionTask(stop=stops)
    assert joined(stream(task, at, tokens, rng)) == expected.strip()
    is_stopped = any(stop in text for stop in stops)
    result = parse_caption(task, at, tokens, "stop" if is_stopped else "length")
    assert (result.caption, result.finish_reason) == (expected.strip(), "stop" if is_stopped else "length")
    assert result.token_ids == tuple(ids[:n])


def parse_caption(task: CaptionTask, at: TaskContext, tokens: Sequence[Token], reason: FinishReason) -> CaptionResult:
    return task.parse(at, tuple(tokens), reason, metrics=Metrics())


CASES = [
    # pieces, stop strings, how many are heard, the answer
    ([b"aaab"], ["aab"], 1, "a"),
    ([b"a", b"a", b"a", b"b"], ["aab"], 4, "a"),
    ([b"xab", b"c", b"d"], ["ab", "abc"], 1, "x"),
    ([b"xa", b"bc", b"d"], ["abc", "ab"], 2, "x"),
    ([b"xabd", b"c"], ["abc", "abd"], 1, "x"),
    ([b"stop", b"more"], ["stop"], 1, ""),
    ([b"one s", b"to", b"p it"], ["stop"], 3, "one"),
    ([b"middle", b"of it"], ["dl"], 1, "mid"),
    ([b" \n said"], ["\n"], 1, ""),  # the blanks around an answer are searched
    ([b"one ", b" two"], ["  "], 2, "one"),
    (["猫が".encode()[:4], "猫が".encode()[4:], b"x"], ["が"], 2, "猫"),
    ([b"a\xf0\x9f", b"\x9a", b"\x80b"], ["🚀b"], 3, "a"),
    ([b"a\xf0\x9f", b"\x9a", b"\x80b"], ["🚀x"], 3, "a🚀b"),
    (["👩‍🚀".encode()], ["\u200d"], 1, "👩"),
    ([b"abc", b"a"], ["abcabc"], 2, "abca"),  # what is held back at the end was no stop string
    ([b"ab", b"c"], ["bc", "abc"], 2, ""),  # several at once: the one that begins first
    ([b"abc"], ["b", "abcd"], 1, "a"),
]


@pytest.mark.parametrize(("pieces", "stops", "num_said", "answer"), CASES)
def test_by_hand(pieces: list[bytes], stops: list[str], num_said: int, answer: str) -> None:
    at, ids = context(tuple(pieces)), ids_of(pieces)
    assert listen(StopStrings(stops, at.detokenizer()), ids) == num_said
    tokens = [Token(i) for i in ids[:num_said]]
    for task in (CaptionTask(stop=stops), QueryTask(question="q", stop=stops)):
        assert joined(stream(task, at, tokens, random.Random(0))) == answer
    assert parse_caption(CaptionTask(stop=stops), at, tokens, "stop").caption == answer


def test_what_only_the_end_makes_whole_can_be_a_stop_string() -> None:
    """Half a character that is cut at the limit is U+FFFD in the text."""
    at, tokens = context((b"ab", b"c\xe7")), [Token(FIRST), Token(FIRST + 1)]
    watch = StopStrings(["c\ufffd"], at.detokenizer())
    assert not any(watch.heard(token.id) for token in tokens)
    task = CaptionTask(stop="c\ufffd")
    assert joined(stream(task, at, tokens, random.Random(0))) == "ab"
    result = parse_caption(task, at, tokens, "length")
    assert (result.caption, result.finish_reason, result.truncated) == ("ab", "stop", False)
    unstopped = parse_caption(CaptionTask(stop="cd"), at, tokens, "length")
    assert (unstopped.caption, unstopped.finish_reason) == ("abc\ufffd", "length")


def test_a_stop_string_that_was_said_wins_over_one_that_the_end_would_make() -> None:
    at, tokens = context((b"ab\xe7",)), [Token(FIRST)]
    task = CaptionTask(stop=["ab\ufffd", "b"])
    assert joined(stream(task, at, tokens, random.Random(0))) == "a"
    assert parse_caption(task, at, tokens, "stop").caption == "a"


def test_only_a_tail_that_could_begin_a_stop_string_is_held_back() -> None:
    stops = StopFilter(["abc", "bd"])
    assert [stops.push(text) for text in ("xa", "b", "b", "e", "", "ab", "cz", "more")] == [
        "x",  # "a" may begin "abc"
        "",
        "ab",  # "abb" does not, its last "b" may begin "bd"
        "be",
        "",
        "",
        "",  # "abc"
        "",
    ]
    assert stops.is_stopped and stops.flush() == ""
    stops = StopFilter(["abc"])
    assert (stops.push("xab"), stops.flush(), stops.is_stopped) == ("x", "ab", False)
    assert StopFilter([]).push("anything") == "anything"


def test_a_chunk_leaves_as_soon_as_it_is_certain() -> None:
    pieces = (b"Hello", b" wo", b"rld", b"!")
    reader = CaptionTask(stop=["world?"]).reader(context(pieces))
    texts = [joined(reader.read([Token(i)])) for i in ids_of(pieces)]
    assert texts == ["Hello", "", "", " world!"] and not reader.end()


@pytest.mark.parametrize("text", ["a" * 40, "ab" * 20, ("a" * 255 + "c") * 3])
def test_the_cost_of_a_token_does_not_grow_with_the_answer(text: str) -> None:
    stops = ["a" * 255 + "b", "ab" * 127 + "c", *(chr(0x4E00 + i) * 256 for i in range(14))]

    def seconds(times: int) -> float:
        stop_filter, start = StopFilter(stops), time.perf_counter()
        for char in text * times:
            stop_filter.push(char)
        assert not stop_filter.is_stopped
        return time.perf_counter() - start

    few = max(1, 1000 // len(text))
    seconds(few)
    assert seconds(20 * few) < 60 * seconds(few)  # a quadratic one takes 400 times


# With reasoning


def test_thoughts_are_not_searched() -> None:
    pieces = (b"the end", b" is near", b"Yes. ", b"The en", b"d.")
    at, ids = context(pieces), ids_of(pieces)
    said_ids = [ids[0], ids[1], MARK, *ids[2:]]
    task = QueryTask(question="q", reasoning=True, stop="he end")
    built = task.build(1, at, None)
    assert built.stop_watch is not None
    assert [built.stop_watch.heard(i) for i in said_ids] == [False] * 5 + [True]
    tokens = [*map(Token, said_ids[:2]), coordinate(0.5), coordinate(0.25), *map(Token, said_ids[2:])]
    chunks = stream(task, at, tokens, random.Random(0))
    result = task.parse(at, tuple(tokens), "stop", metrics=Metrics())
    assert isinstance(result, QueryResult) and result.reasoning is not None
    assert joined(chunks, ReasoningDelta) == result.reasoning.text == "the end is near"
    assert joined(chunks) == result.answer == "Yes. T"


def test_a_text_does_not_go_on_across_the_answer_mark() -> None:
    pieces = (b"en", b"d")
    watch = StopStrings(["end"], context(pieces).detokenizer(), MARK)
    assert [watch.heard(i) for i in (FIRST, MARK, FIRST + 1, MARK, FIRST, FIRST + 1)] == [False] * 5 + [True]


# Requests and results


def test_a_request_without_stop_strings_watches_nothing() -> None:
    at = context((b"a",))
    assert QueryTask(question="q").build(1, at, None).stop_watch is None
    assert QueryTask(question="q", stop=[]).build(1, at, None).stop_watch is None
    task = QueryTask(question="q", stop="a")
    first, second = task.build(1, at, None).stop_watch, task.build(2, at, None).stop_watch
    assert first is not None and first is not second, "it is state: one a request"


def test_log_probabilities_stay_one_a_token() -> None:
    pieces = (b"ab", b"cd", b"ef")
    tokens = [Token(i, logprobs=Logprobs(-0.5)) for i in ids_of(pieces)]
    task = CaptionTask(stop="de", sampling=Sampling(logprobs=0))
    result = parse_caption(task, context(pieces), tokens, "stop")
    assert result.caption == "abc" and result.logprobs is not None
    assert [entry.id for entry in result.logprobs] == list(result.token_ids) == ids_of(pieces)


WRONG: list[Any] = [
    "",
    [""],
    ["a", ""],
    "a" * 257,
    ["a"] * 17,
    3,
    None,
    ["a", 3],
    b"a",
    {"a"},
    [b"a"],
    "\ud800",
    object(),
]


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_no_stop_string_is_named(wrong: Any) -> None:
    for make in (lambda: CaptionTask(stop=wrong), lambda: QueryTask(question="q", stop=wrong)):
        with pytest.raises(RequestError, match="stop") as caught:
            make()
        assert "Unicode" in str(caught.value) or "at most 16 texts of 1 to 256 characters" in str(caught.value)


def test_the_limits_themselves_are_allowed() -> None:
    stops = [chr(0x4E00 + i) * 256 for i in range(16)]
    assert CaptionTask(stop=stops).stop == tuple(stops)
    assert CaptionTask(stop="x").stop == ("x",) and CaptionTask(stop=("a", "b")).stop == ("a", "b")


# In the scheduler


class StopsAt:
    """The answer ends with this id."""

    def __init__(self, last: int) -> None:
        self._last = last
        self.ids: list[int] = []

    def heard(self, token_id: int) -> bool:
        self.ids.append(token_id)
        return token_id == self._last


@pytest.mark.parametrize("depth", [1, 2])
def test_the_answer_ends_with_the_commit_that_completes_it(depth: int) -> None:
    runner, watch = ScriptedRunner(SCRIPT), StopsAt(12)
    s = scheduler(runner, depth=depth)
    s.add(replace(request(0), stop_watch=watch))
    updates = drain(s)
    assert news(updates) == [(0, (11,), None), (0, (12,), "stop")] and updates[-1].timing is not None
    assert watch.ids == [11, 12], "what a zombie says is not heard"
    assert sum(call.startswith("launch") for call in runner.calls) == 1 + depth
    assert s.stats().num_zombie_rows == depth - 1
    assert (s.stats().num_free_pages, s.stats().num_free_rows) == (40, 4)


@pytest.mark.parametrize("depth", [1, 2])
def test_a_stop_string_in_the_last_token_allowed_is_a_stop(depth: int) -> None:
    s = scheduler(ScriptedRunner(SCRIPT), depth=depth)
    s.add(replace(request(0, max_tokens=2), stop_watch=StopsAt(12)))
    updates = drain(s)
    assert said(updates, 0) == [11, 12] and updates[-1].finish_reason == "stop"


def test_the_end_token_is_not_heard() -> None:
    watch = StopsAt(-1)
    s = scheduler(ScriptedRunner(SCRIPT))
    s.add(replace(request(2), stop_watch=watch))
    drain(s)
    assert watch.ids == [31]
