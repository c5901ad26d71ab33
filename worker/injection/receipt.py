"""Make the receipt of a request."""

from collections.abc import Mapping
from dataclasses import asdict

from hooks.contract import InjectionRequest, InjectionResult
from worker.domain.model_calls import ModelUsage
from worker.domain.receipt import ConsideredMemory, ModelReceipt, Receipt
from worker.text.counts import counted
from worker.text.excerpts import ends, head

from .redaction import redacted
from .turn import CandidateOutcome, Conclusion, Turn, text_of

MOST_BYTES = 65_536
"""Maximum size of a receipt as JSON."""


def receipt_of(turn: Turn, conclusion: Conclusion, result: InjectionResult) -> Receipt:
    """Return the receipt, which explains the result and allows a replay, reduced to what `receipt_keep` allows."""
    selection = conclusion.selection
    probabilities = selection.probabilities if selection else {}
    whole = Receipt(
        id=turn.receipt_id,
        at=turn.now,
        request=_as_answered(turn),
        config=turn.config.model_dump(mode="json"),
        config_version=turn.config.version,
        query=turn.query.query,
        recalls=selection.recalls if selection else (),
        outcome=result.outcome,
        reason=result.reason,
        engine=result.engine,
        degraded=result.degraded,
        required=selection.required if selection else None,
        considered=tuple(_considered(one, turn, probabilities) for one in conclusion.candidate_outcomes),
        chosen=tuple(line.memory.id for line in conclusion.lines),
        block_id=result.block_id,
        block=result.memory_context,
        model=_model_receipt(selection.usage, selection.prompt_id) if selection and selection.usage else None,
        attempts=selection.attempts if selection else (),
        notes=(*turn.notes, *(selection.notes if selection else ())),
        exchanges=selection.exchanges if selection else (),
        stages=result.stages,
        began_ms=turn.stages.began_ms(),
        elapsed_ms=result.elapsed_ms,
    )
    return within_size(redacted(whole, turn.config.receipt_keep))


def within_size(receipt: Receipt) -> Receipt:
    """Return the receipt in at most `MOST_BYTES`: without texts of calls, then with shorter ones and fewer memories."""
    if _size(receipt) <= MOST_BYTES:
        return receipt
    receipt = _without_exchanges(receipt)
    if _size(receipt) <= MOST_BYTES:
        return receipt
    receipt = _shorter(receipt)
    while _size(receipt) > MOST_BYTES and receipt.considered:
        fewer = receipt.considered[: len(receipt.considered) // 2]
        receipt = receipt.model_copy(update={"considered": fewer})
    return receipt if _size(receipt) <= MOST_BYTES else _shortest(receipt)


def _without_exchanges(receipt: Receipt) -> Receipt:
    if not receipt.exchanges:
        return receipt
    note = f"the texts of {counted(len(receipt.exchanges), 'call', 'calls')} of models were too long to be kept"
    return receipt.model_copy(update={"exchanges": (), "notes": (*receipt.notes, note)})


def _shorter(receipt: Receipt) -> Receipt:
    request = receipt.request
    recent = tuple(
        one.model_copy(update={"content": ends(one.content, 200, 600)}) for one in request.recent_messages[-6:]
    )
    task = ends(request.task_description, 500, 1_500) if request.task_description else None
    texts = {"message": ends(request.message, 2_000, 4_000), "task_description": task, "recent_messages": recent}
    considered = tuple(one.model_copy(update={"text": ends(one.text, 300, 100)}) for one in receipt.considered)
    shorter = {
        "request": request.model_copy(update=texts),
        "query": head(receipt.query, 4_000),
        "considered": considered,
        "block": None,
    }
    return receipt.model_copy(update=shorter)


def _shortest(receipt: Receipt) -> Receipt:
    """Return what explains a request of which nearly everything is too long; it cannot be replayed as it was."""
    request = receipt.request
    texts = {"message": ends(request.message, 500, 500), "task_description": None, "recent_messages": ()}
    notes = tuple(head(note, 500) for note in receipt.notes[:5])
    short = {"request": request.model_copy(update=texts), "query": head(receipt.query, 500), "notes": notes}
    return receipt.model_copy(update=short | {"recalls": (), "config": {}})


def _size(receipt: Receipt) -> int:
    return len(receipt.model_dump_json().encode())


def _as_answered(turn: Turn) -> InjectionRequest:
    """Return the request with the format of its block."""
    render = turn.request.render.model_copy(update={"format": turn.style})
    return turn.request.model_copy(update={"render": render})


def _considered(outcome: CandidateOutcome, turn: Turn, probabilities: Mapping[str, float]) -> ConsideredMemory:
    candidate, memory, cues = outcome.candidate, outcome.candidate.memory, outcome.candidate.cues
    return ConsideredMemory.model_construct(  # fifty a receipt, of values that are valid already
        id=memory.id,
        type=memory.type,
        text=text_of(memory, turn),
        version=memory.version,
        created_at=memory.created_at,
        cosine=candidate.cosine,
        own_cosine=cues.own_cosine if cues else None,
        cue_cosine=cues.cosine if cues else None,
        cue=cues.leading if cues else None,
        cues_near=cues.near if cues else 0,
        keyword=candidate.keyword,
        relevance=candidate.relevance,
        score=candidate.score,
        source=candidate.source,
        legs=candidate.legs,
        probability=probabilities.get(memory.id),
        verdict=outcome.verdict,
        duplicate_of=outcome.of,
    )


def _model_receipt(usage: ModelUsage, prompt_id: str | None) -> ModelReceipt:
    spent = asdict(usage)
    return ModelReceipt(name=spent.pop("model"), prompt_id=prompt_id, **spent)
