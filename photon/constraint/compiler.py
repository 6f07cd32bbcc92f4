"""Makes constraints for one vocabulary. Called by whoever submits a request, never by the tick: compiling takes time.

xgrammar is imported with the first grammar (it imports transformers). Compiled grammars are kept within a byte limit.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from string import Template
from typing import TYPE_CHECKING

import numpy as np

from photon.constraint.grammar import GrammarConstraint
from photon.constraint.reasoning import ReasoningConstraint
from photon.constraint.vocabulary import Vocabulary
from photon.datadir import grammars_dir
from photon.errors import ConstraintError
from photon.request import Role

if TYPE_CHECKING:
    import xgrammar

    from photon.constraint.structure import Structure

CACHE_BYTES = 64 * 2**20


class ConstraintCompiler:
    """Safe from many threads at once."""

    def __init__(self, vocabulary: Vocabulary, *, cache_bytes: int = CACHE_BYTES) -> None:
        self.vocabulary = vocabulary
        self._cache_bytes = cache_bytes
        self._lock = threading.Lock()
        self._compiler: xgrammar.GrammarCompiler | None = None

    def warm_up(self) -> None:
        """Import xgrammar and hand it the vocabulary now, so that the first grammar need not wait for it."""
        self._grammar_compiler()

    def from_template(self, name: str, values: Mapping[str, int], roles: tuple[Role, ...]) -> GrammarConstraint:
        """The grammar file `name` with `values` put in place of its $names, as a constraint at its start."""
        return self.from_grammar(instantiate(name, values), roles)

    def from_grammar(self, grammar: str, roles: tuple[Role, ...]) -> GrammarConstraint:
        """Compile EBNF with token-level edges. ConstraintError says what does not compile."""
        from xgrammar import GrammarMatcher

        try:
            matcher = GrammarMatcher(self._grammar_compiler().compile_grammar(grammar))
        except RuntimeError as error:
            raise ConstraintError(f"the grammar does not compile: {error}") from error
        return GrammarConstraint(matcher, self.vocabulary, roles)

    def structured(self, structure: Structure) -> GrammarConstraint:
        """ConstraintError for what is wrong with it, known before anything of it is said."""
        constraint = self.from_grammar(structure.ebnf(), (Role.TEXT,))
        constraint.fill_mask(np.zeros(self.vocabulary.mask_words, np.int32))  # there is something to be said
        return constraint

    def reasoning(self, *, answer_mark: int, banned_ids: tuple[int, ...], limit: int) -> ReasoningConstraint:
        return ReasoningConstraint(self.vocabulary, answer_mark=answer_mark, banned_ids=banned_ids, limit=limit)

    @property
    def num_cached_bytes(self) -> int:
        return self._compiler.get_cache_size_bytes() if self._compiler else 0

    def _grammar_compiler(self) -> xgrammar.GrammarCompiler:
        with self._lock:
            if self._compiler is None:
                self._compiler = _make_compiler(self.vocabulary, self._cache_bytes)
            return self._compiler


def instantiate(name: str, values: Mapping[str, int]) -> str:
    """Text of the grammar file `name` with numbers for its $names. ConstraintError for an unknown file or name."""
    path = grammars_dir() / f"{name}.ebnf"
    if not path.is_file():
        known = ", ".join(sorted(p.stem for p in grammars_dir().glob("*.ebnf")))
        raise ConstraintError(f"unknown grammar {name!r}; known grammars: {known}")
    try:
        return Template(path.read_text(encoding="utf-8")).substitute(values)
    except KeyError as error:
        raise ConstraintError(f"grammar {name!r} needs a value for {error}") from None


def _make_compiler(vocabulary: Vocabulary, cache_bytes: int) -> xgrammar.GrammarCompiler:
    import xgrammar

    info = xgrammar.TokenizerInfo(
        list(vocabulary.pieces),
        xgrammar.VocabType.RAW,
        vocab_size=vocabulary.vocab_size,
        stop_token_ids=list(vocabulary.stop_ids),
    )
    return xgrammar.GrammarCompiler(info, max_threads=1, cache_limit_bytes=cache_bytes)
