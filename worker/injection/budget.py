"""Fit a block into its limits. Pure.

Memories are never cut, and their order never changes. Pinned memories fill their slots first, up to half of the
characters and tokens if search found any memories; these fill the rest.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hooks.contract import BlockFormat, ItemSource
from worker.domain.memory import Candidate, CandidateVerdict, Dropped
from worker.text.rendering import RenderedMemory, block
from worker.text.tokens import estimate_tokens, utf16_length


@dataclass(frozen=True, slots=True)
class BlockLimits:
    """Limits of a block: memories found by search, memories in total, UTF-16 characters and tokens."""

    contextual: int
    total: int
    chars: int
    tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Fitted:
    """The lines that fit, in the given order, and the candidates that do not."""

    lines: tuple[RenderedMemory, ...]
    dropped: tuple[Dropped, ...]


def fit(
    chosen: Sequence[Candidate], lines: Sequence[RenderedMemory], limits: BlockLimits, style: BlockFormat
) -> Fitted:
    """Return what fits of `chosen`, whose rendered `lines` have the same order.

    A memory that is too long is skipped; a shorter one after it may still fit.
    """
    filling = _PartialBlock(lines, limits, style)
    pinned = [place for place, line in enumerate(lines) if line.source is ItemSource.PINNED]
    contextual = [place for place, line in enumerate(lines) if line.source is not ItemSource.PINNED]
    if pinned and contextual:
        tokens = None if limits.tokens is None else limits.tokens // 2
        filling.add(pinned, replace(limits, chars=limits.chars // 2, tokens=tokens))
    filling.add(contextual, limits)
    filling.add(pinned, limits)
    return Fitted(
        tuple(lines[place] for place in sorted(filling.kept)),
        tuple(Dropped(chosen[place], verdict) for place, verdict in sorted(filling.over.items())),
    )


class _PartialBlock:
    """A block being filled: indices of the included lines, and why others do not fit."""

    def __init__(self, lines: Sequence[RenderedMemory], limits: BlockLimits, style: BlockFormat) -> None:
        self._lines = lines
        self._contextual = limits.contextual
        self._style = style
        self.kept: list[int] = []
        self.over: dict[int, CandidateVerdict] = {}

    def add(self, places: Sequence[int], limits: BlockLimits) -> None:
        for place in places:
            if place in self.kept:
                continue
            verdict = self._refusal(place, limits)
            if verdict is None:
                self.kept.append(place)
                self.over.pop(place, None)
            else:
                self.over[place] = verdict

    def _refusal(self, place: int, limits: BlockLimits) -> CandidateVerdict | None:
        """Return why this line does not fit, or `None` if it does."""
        if len(self.kept) >= limits.total or self._is_full(place):
            return CandidateVerdict.OVER_ITEMS
        whole = block([self._lines[kept] for kept in sorted([*self.kept, place])], self._style) or ""
        if utf16_length(whole) > limits.chars:
            return CandidateVerdict.OVER_CHARS
        if limits.tokens is not None and estimate_tokens(whole) > limits.tokens:
            return CandidateVerdict.OVER_TOKENS
        return None

    def _is_full(self, place: int) -> bool:
        if self._lines[place].source is ItemSource.PINNED:
            return False
        contextual = [kept for kept in self.kept if self._lines[kept].source is not ItemSource.PINNED]
        return len(contextual) >= self._contextual
