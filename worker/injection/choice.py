"""Choose among the candidates of a turn: at once without a model, then better with one if time allows."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from hooks.contract import Mode, Reason
from worker.domain.errors import ModelError, StoreError
from worker.domain.memory import Dropped, Recalled, RecallTool, Selection
from worker.ports.models import Selector
from worker.query.skipping import effective_mode
from worker.relevance.selector import with_probabilities, worth_asking

from .search_only import is_unsure
from .strategies import SelectionPlan
from .turn import Turn

MODEL_RESERVE = 0.1
"""Seconds kept back from the model, for rendering and for the ledger."""

MODEL_MINIMUM = 0.4
"""Seconds that must be left to ask the model at all."""

MODEL_GRACE = 0.03
"""Seconds between the model's own limit and the one around it: a call that ends itself counts as a failure of the
model, one that is cancelled from outside does not."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A selection, the reason if a model should have made it and did not, and what was dropped on the way."""

    selection: Selection
    failure: Reason | None = None
    dropped: tuple[Dropped, ...] = ()


Pause = Callable[[], AbstractContextManager[None]]
"""Lets other requests compute while this one waits."""


async def choose(turn: Turn, plan: SelectionPlan, recalled: Recalled, tool: RecallTool, pause: Pause) -> Choice:
    """Return the choice that `plan` makes among what was recalled, before the turn's deadline."""
    with turn.stages("relevance"):
        settled = await plan.settles.select(turn.task, recalled, tool, turn.config, turn.deadline)
    if plan.note:
        settled = replace(settled, notes=(*settled.notes, plan.note))
    if plan.improves is None:
        return Choice(settled, settled.failure)
    worth, beside = worth_asking(recalled, settled)
    if not _asks_model(effective_mode(turn.request, turn.config), worth, settled):
        return Choice(settled, settled.failure)
    with turn.stages("triage"), pause():
        selection, failure = await _ask_model(plan.improves, turn, worth, tool, settled)
    return Choice(with_probabilities(selection, settled), failure, tuple(beside))


def _asks_model(mode: Mode, recalled: Recalled, settled: Selection) -> bool:
    """Return whether the model chooses: never about nothing."""
    if not recalled.candidates:
        return False
    return mode is Mode.ALWAYS or (mode is Mode.ESCALATE and is_unsure(settled))


async def _ask_model(
    model: Selector, turn: Turn, recalled: Recalled, tool: RecallTool, settled: Selection
) -> tuple[Selection, Reason | None]:
    """Return the model's choice if it comes in time, else `settled` and the reason."""
    limit = turn.deadline.keeping(MODEL_RESERVE)
    if limit.remaining() < MODEL_MINIMUM:
        return settled, Reason.MODEL_NO_TIME
    try:
        async with asyncio.timeout(limit.remaining() + MODEL_GRACE):
            selection = await model.select(turn.task, recalled, tool, turn.config, limit)
        return selection, Reason.MODEL_TIMEOUT if selection.partial else None
    except TimeoutError:
        return settled, Reason.MODEL_TIMEOUT
    except ModelError as error:
        return replace(settled, attempts=error.attempts, exchanges=error.exchanges), error.reason
    except StoreError:
        return settled, Reason.STORE_UNAVAILABLE
