"""Redact receipts before they are stored: mask secrets, and drop texts and settings if configured. Pure."""

from typing import Any

from hooks.contract import InjectionRequest, RecentMessage, RenderOptions, Scope
from worker.domain.kinds import ReceiptKeep
from worker.domain.model_calls import ModelExchange
from worker.domain.receipt import ConsideredMemory, Receipt
from worker.text.excerpts import head, tail
from worker.text.masking import mask_secrets

MOST_CHARS = 20_000
"""Characters kept of a text; a longer one keeps its beginning and end."""

MARGIN = 2_000
"""Extra characters read beyond a cut, to mask a secret that spans it."""

ELLIPSIS = " … "


def redacted(receipt: Receipt, keep: ReceiptKeep) -> Receipt:
    """Return the receipt to store."""
    if keep is ReceiptKeep.EVERYTHING:
        return _masked(receipt)
    return _without_texts(receipt, numbers_only=keep is ReceiptKeep.NUMBERS)


def without_secrets(text: str) -> str:
    """Mask secrets in `text`, and cut the middle out of a very long one."""
    if len(text) <= MOST_CHARS:
        return _mask(text)
    half = MOST_CHARS // 2
    return head(_mask(text[: half + MARGIN]), half) + ELLIPSIS + tail(_mask(text[-half - MARGIN :]), half)


def _mask(text: str) -> str:
    return mask_secrets.__wrapped__(text)  # bypasses the cache: these texts do not repeat


def _masked(receipt: Receipt) -> Receipt:
    request = receipt.request
    task, masked = request.task_description, receipt.config.get("mask_secrets") is True
    changes: dict[str, Any] = {
        "message": without_secrets(request.message),
        "task_description": None if task is None else without_secrets(task),
        "recent_messages": tuple(
            RecentMessage(role=turn.role, content=without_secrets(turn.content)) for turn in request.recent_messages
        ),
    }
    return receipt.model_copy(
        update={
            "request": request.model_copy(update=changes),
            "query": without_secrets(receipt.query),
            "recalls": tuple(map(without_secrets, receipt.recalls)),
            "considered": receipt.considered if masked else tuple(map(_masked_memory, receipt.considered)),
            "exchanges": tuple(
                ModelExchange(without_secrets(one.prompt), without_secrets(one.answer)) for one in receipt.exchanges
            ),
            "block": receipt.block if masked or receipt.block is None else without_secrets(receipt.block),
        }
    )


def _masked_memory(memory: ConsideredMemory) -> ConsideredMemory:
    return _with_texts(memory, without_secrets(memory.text), memory.cue and without_secrets(memory.cue))


def _with_texts(memory: ConsideredMemory, text: str, cue: str | None) -> ConsideredMemory:
    return memory.model_copy(update={"text": text, "cue": cue})


def _without_texts(receipt: Receipt, *, numbers_only: bool) -> Receipt:
    request = receipt.request.model_copy(update={"message": "", "task_description": None, "recent_messages": ()})
    update: dict[str, Any] = {
        "request": _ids_of(request) if numbers_only else request,
        "query": "",
        "recalls": (),
        "block": None,
        "exchanges": (),
        "considered": tuple(_with_texts(one, "", None) for one in receipt.considered),
        "kept": ReceiptKeep.NUMBERS if numbers_only else ReceiptKeep.NO_TEXTS,
    }
    return receipt.model_copy(update=update | ({"config": {}} if numbers_only else {}))


def _ids_of(request: InjectionRequest) -> InjectionRequest:
    update = {
        "scope": Scope(tenant=request.scope.tenant),
        "source": "",
        "render": RenderOptions(format=request.render.format),
    }
    return request.model_copy(update=update)
