"""Requests in words and pictures: what happened, what became of each candidate, and where the time went. Pure."""

from collections.abc import Mapping
from datetime import datetime

from pydantic import BaseModel

from hooks.contract import Engine, Outcome, Reason
from worker.domain.kinds import SearchKind
from worker.domain.memory import CandidateVerdict
from worker.domain.receipt import Receipt
from worker.domain.receipt_summary import ReceiptSummary
from worker.receipts.explaining import fate_of

from .words import counted

DECIDERS: Mapping[Engine, str] = {
    Engine.LLM: "chat model",
    Engine.DECISION: "decision model",
    Engine.RELEVANCE_MODEL: "relevance model",
    Engine.DETERMINISTIC: "search scores",
    Engine.NONE: "",
}

_SKIPPED: Mapping[Reason, str] = {
    Reason.DISABLED: "switched off",
    Reason.MODE_OFF: "switched off for this request",
    Reason.EMPTY_MESSAGE: "an empty message",
    Reason.HOST_NOTICE: "a notice of the host",
    Reason.ATTACHMENT_ONLY: "only an attachment",
    Reason.SOURCE_SKIPPED: "its source is left out",
    Reason.SLASH_COMMAND: "a command",
    Reason.SKIP_PATTERN: "it matches a pattern to skip",
    Reason.EMOJI_ONLY: "no words",
    Reason.GREETING: "a greeting",
    Reason.ACKNOWLEDGEMENT: "an acknowledgement",
}

_FAULTS: Mapping[str, str] = {
    Reason.STORE_UNAVAILABLE: "the store does not answer",
    Reason.EMBEDDER_UNAVAILABLE: "without vectors: the embedder does not answer",
    Reason.EMBEDDER_MISMATCH: "without vectors: they are another embedder's",
    Reason.MODEL_TIMEOUT: "without the model: it was too late",
    Reason.MODEL_UNREACHABLE: "without the model: it cannot be reached",
    Reason.MODEL_ERROR: "without the model: it failed",
    Reason.MODEL_RATE_LIMITED: "without the model: it is limited",
    Reason.MODEL_UNPARSEABLE: "without the model: its answer makes no sense",
    Reason.MODEL_TRUNCATED: "without the model: its answer was cut off",
    Reason.MODEL_REFUSED: "without the model: it refused",
    Reason.MODEL_NO_TIME: "without the model: no time was left",
    Reason.MODEL_PAUSED: "without the model: it is paused after failures",
}

LEGS: Mapping[SearchKind, str] = {
    SearchKind.MESSAGE: "message",
    SearchKind.WORDING: "other wording",
    SearchKind.DATED: "time",
    SearchKind.NAMED: "name",
    SearchKind.LINKED: "link",
    SearchKind.SUCCESSOR: "successor",
    SearchKind.PINNED: "pinned",
}

STAGES: Mapping[str, str] = {
    "query": "read the message",
    "embed": "embed the message",
    "search": "search",
    "links": "follow links",
    "rank": "rank",
    "briefing": "gather the briefing",
    "dedup": "drop what says the same",
    "relevance": "choose with the relevance model",
    "triage": "choose with the model",
}

MARKS: Mapping[str, str] = {"good": "●", "none": "○", "warn": "◐", "bad": "▲"}


class Mark(BaseModel):
    """A state as a shape, a colour and words."""

    kind: str
    shape: str
    words: str


def mark_of(outcome: Outcome, reason: Reason | None, chosen: int, *, degraded: bool) -> Mark:
    """Return what happened to a request."""
    kind = "good" if outcome is Outcome.INJECTED else "none"
    words = {
        Outcome.INJECTED: counted(chosen, "memory given", "memories given"),
        Outcome.NONE_RELEVANT: "Nothing fit",
        Outcome.ALL_DUPLICATE: "Already in the conversation",
        Outcome.SKIPPED: "Not searched",
        Outcome.TIMEOUT: "Too late",
        Outcome.ERROR: "Failed",
    }[outcome]
    fault = fault_words(reason)
    if outcome is Outcome.SKIPPED and reason is not None:
        words += f": {_SKIPPED.get(reason, str(reason))}"
    elif outcome in (Outcome.TIMEOUT, Outcome.ERROR):
        kind, words = "bad", f"{words}: {fault}" if fault else words
    elif degraded:
        kind, words = "warn", f"{words}, {fault}" if fault else words
    return Mark(kind=kind, shape=MARKS[kind], words=words)


def fault_words(reason: str | None) -> str:
    """Return what went wrong, empty if nothing is known of it."""
    return _FAULTS.get(reason, str(reason)) if reason is not None else ""


class RequestRow(BaseModel):
    """A request in the list."""

    id: str
    at: datetime
    message: str
    mark: Mark
    agent: str
    user: str | None
    session: str
    decided_by: str
    elapsed_ms: float
    dry_run: bool


def row_of(summary: ReceiptSummary) -> RequestRow:
    return RequestRow(
        id=summary.id,
        at=summary.at,
        message=summary.message,
        mark=mark_of(summary.outcome, summary.reason, summary.chosen, degraded=summary.degraded),
        agent=summary.agent_id,
        user=summary.user,
        session=summary.session_id,
        decided_by=DECIDERS[summary.engine],
        elapsed_ms=summary.elapsed_ms,
        dry_run=summary.dry_run,
    )


class CandidateRow(BaseModel):
    """A considered memory: what became of it, and what would change that."""

    id: str
    type: str
    text: str
    deleted: bool
    given: bool
    label: bool
    legs: list[str]
    meaning: float | None
    words: float | None
    chance: float | None
    why: str
    remedy: str | None
    other: str | None
    cue: str | None


def candidates_of(receipt: Receipt) -> list[CandidateRow]:
    """Return the considered memories, those that were given first, in the order of the block."""
    order = {key: number for number, key in enumerate(receipt.chosen)}
    rows = []
    for one in sorted(receipt.considered, key=lambda one: order.get(one.id, len(order))):
        fate = fate_of(one, receipt)
        rows.append(
            CandidateRow(
                id=one.id,
                type=one.type.value,
                text=one.text,
                deleted=one.deleted,
                given=one.id in order,
                label=not one.deleted and one.verdict is not CandidateVerdict.ALREADY_SHOWN,
                legs=[LEGS[leg] for leg in one.legs],
                meaning=one.cosine,
                words=one.keyword,
                chance=one.probability,
                why=f"given{fate.numbers}" if one.id in order else fate.why,
                remedy=fate.remedy,
                other=one.duplicate_of,
                cue=one.cue,
            )
        )
    return rows


def tokens_of(receipt: Receipt) -> str | None:
    """Return what a model read and wrote for the request."""
    model = receipt.model
    return f"{model.input_tokens:,} tokens in, {model.output_tokens:,} out" if model else None


class Bar(BaseModel):
    """A stage in the waterfall, with its place in the picture in thousandths of its width."""

    name: str
    began_ms: float
    spent_ms: float
    x: float
    width: float


class Waterfall(BaseModel):
    """Where the time of a request went; `deadline` is the place of the deadline in thousandths."""

    bars: list[Bar]
    scale_ms: float
    deadline_ms: int
    deadline: float
    has_places: bool


LEAST_WIDTH = 3.0
"""Thousandths that a bar has at least, so that it can be seen."""


def waterfall_of(receipt: Receipt) -> Waterfall:
    """Return the stages in the order in which they began; receipts of former versions do not say when."""
    ends = [receipt.began_ms.get(name, 0.0) + spent for name, spent in receipt.stages.items()]
    deadline_ms = receipt.request.deadline_ms
    scale = max([deadline_ms, receipt.elapsed_ms, *ends])
    order = sorted(receipt.stages, key=lambda name: receipt.began_ms.get(name, 0.0))
    bars = [
        Bar(
            name=STAGES.get(name, name),
            began_ms=receipt.began_ms.get(name, 0.0),
            spent_ms=receipt.stages[name],
            x=round(1000 * receipt.began_ms.get(name, 0.0) / scale, 1),
            width=round(max(LEAST_WIDTH, 1000 * receipt.stages[name] / scale), 1),
        )
        for name in order
    ]
    return Waterfall(
        bars=bars,
        scale_ms=scale,
        deadline_ms=deadline_ms,
        deadline=round(1000 * deadline_ms / scale, 1),
        has_places=bool(receipt.began_ms) or not receipt.stages,
    )
