"""Keeps a block within its limits: whole memories only, in the order given. Pure."""

from collections.abc import Sequence

from .models import Candidate, Dropped, Verdict
from .render import Line, Measure


def fit(
    chosen: Sequence[Candidate], lines: Sequence[Line], *, max_items: int, max_chars: int, measure: Measure
) -> tuple[list[Line], list[Dropped]]:
    """The lines that fit and the candidates that do not; `chosen` and `lines` go together.

    A memory that is too long for what is left is passed over, a shorter one after it may still fit.
    """
    kept: list[Line] = []
    dropped: list[Dropped] = []
    for candidate, line in zip(chosen, lines, strict=True):
        if len(kept) >= max_items:
            dropped.append(Dropped(candidate, Verdict.OVER_ITEMS))
        elif measure([*kept, line]) > max_chars:
            dropped.append(Dropped(candidate, Verdict.OVER_CHARS))
        else:
            kept.append(line)
    return kept, dropped
