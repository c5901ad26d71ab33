"""What a receipt keeps of a request: secrets never, texts and settings as the settings say. Pure."""

from collections.abc import Sequence
from typing import Any

from hooks.contract import InjectionRequest, RecentMessage, RenderOptions, Scope
from worker.domain.kinds import ReceiptKeep
from worker.domain.receipt import ConsideredMemory, Receipt
from worker.text.masking import mask_secrets

MOST_CHARS = 20_000
"""Characters that are kept of one text; of a longer one the beginning and the end."""

MARGIN = 2_000
"""Characters beyond a cut that are looked at, so that a secret which lies across it is masked, too."""

GAP = " … "


def kept(receipt: Receipt, keep: ReceiptKeep) -> Receipt:
    """The receipt as it is to be stored."""
    if keep is ReceiptKeep.EVERYTHING:
        return _masked(receipt)
    return _without_texts(receipt, numbers_only=keep is ReceiptKeep.NUMBERS)


def without_secrets(text: str) -> str:
    """`text`, its secrets masked, the middle of a very long one left out."""
    if len(text) <= MOST_CHARS:
        return _mask(text)
    half = MOST_CHARS // 2
    return _mask(text[: half + MARGIN])[:half] + GAP + _mask(text[-half - MARGIN :])[-half:]


def _mask(text: str) -> str:
    """As `mask_secrets`, whose cache is for texts that come up again."""
    return mask_secrets.__wrapped__(text)


def _masked(receipt: Receipt) -> Receipt:
    request = receipt.request
    task, masked = request.task_description, receipt.config.get("mask_secrets") is True
    changes: dict[str, Any] = {
        "message": without_secrets(request.message),
        "task_description": None if task is None else without_secrets(task),
        "recent_messages": _masked_turns(request.recent_messages),
    }
    return receipt.model_copy(
        update={
            "request": request.model_copy(update=changes),
            "query": without_secrets(receipt.query),
            "recalls": tuple(map(without_secrets, receipt.recalls)),
            "considered": receipt.considered if masked else tuple(map(_masked_memory, receipt.considered)),
        }
    )


def _masked_turns(turns: Sequence[RecentMessage]) -> tuple[RecentMessage, ...]:
    return tuple(RecentMessage(role=turn.role, content=without_secrets(turn.content)) for turn in turns)


def _masked_memory(memory: ConsideredMemory) -> ConsideredMemory:
    return _with_text(memory, without_secrets(memory.text))


def _with_text(memory: ConsideredMemory, text: str) -> ConsideredMemory:
    return memory.model_copy(update={"text": text})


def _without_texts(receipt: Receipt, *, numbers_only: bool) -> Receipt:
    request = receipt.request.model_copy(update={"message": "", "task_description": None, "recent_messages": ()})
    update: dict[str, Any] = {"request": _ids_of(request) if numbers_only else request, "query": "", "recalls": ()}
    update["considered"] = tuple(_with_text(one, "") for one in receipt.considered)
    update["kept"] = ReceiptKeep.NUMBERS if numbers_only else ReceiptKeep.NO_TEXTS
    if numbers_only:
        update["config"] = {}
    return receipt.model_copy(update=update)


def _ids_of(request: InjectionRequest) -> InjectionRequest:
    """The request by whose ids its turn can be found again, and its numbers."""
    update = {"scope": Scope(tenant=request.scope.tenant), "source": "", "render": RenderOptions()}
    return request.model_copy(update=update)
