"""Why a memory did not come, also if the request never considered it."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from hooks.contract import ItemSource, Outcome
from worker.domain.deadline import Deadline
from worker.domain.memory import CandidateVerdict, Memory, MemoryFilter, Visibility, is_superseded
from worker.domain.receipt import ConsideredMemory, Receipt
from worker.domain.visibility import visible_to
from worker.ports.state import ReceiptStore
from worker.ports.store import StoreEngine
from worker.recall.standing import LOOKED_AT, Standing, Standings
from worker.settings.injection import InjectionConfig
from worker.text.counts import counted

from .absence import Absence, MemoryExplanation
from .deleted_texts import read_shown
from .explaining import fate_of, skipped_because
from .replay import config_of
from .replay_models import ReplayRequest

_BY_RELEVANCE = frozenset(
    {
        CandidateVerdict.BELOW_THRESHOLD,
        CandidateVerdict.OVER_POOL,
        CandidateVerdict.BELOW_CUT,
        CandidateVerdict.NOT_SELECTED,
        CandidateVerdict.OVER_ITEMS,
    }
)

Found = tuple[Absence, str, str | None]
"""A reason, in words, and what would change it."""


@dataclass(frozen=True, slots=True)
class MemoryQuestions:
    """Answers why a memory did not come for a past request."""

    receipts: ReceiptStore
    engine: StoreEngine
    config_for: Callable[[str], InjectionConfig]
    standings: Standings

    async def explain(self, tenant: str, receipt_id: str, memory_id: str, deadline: Deadline) -> MemoryExplanation:
        """Raise `NotFound` for an unknown receipt, and `StoreError`."""
        receipt = await read_shown(self.receipts, self.engine, tenant, receipt_id)
        considered = next((one for one in receipt.considered if one.id == memory_id), None)
        known = await self.engine.tenant(tenant).get([memory_id])
        if considered is not None and not (known and _passed_over(known[0], considered)):
            return _of_considered(receipt, considered)
        if not known:
            return _explained(receipt, memory_id, _unknown(tenant))
        config = self._config(receipt)
        visibility = _visibility(receipt, config)
        found = _not_searched(receipt) or hidden(known[0], receipt, visibility)
        if found is not None:
            other = known[0].superseded_by if found[0] is Absence.REPLACED else None
            return _explained(receipt, memory_id, found).model_copy(update={"other": other})
        if known[0].pinned:
            pinned = await self.engine.tenant(tenant).count(MemoryFilter(visibility, pinned=True))
            return _explained(receipt, memory_id, _too_many_pinned(pinned, config.max_total))
        query = receipt.query or receipt.request.message
        standing = await self.standings.of(memory_id, query, tenant, visibility, deadline)
        return _of_standing(receipt, memory_id, standing, config)

    def _config(self, receipt: Receipt) -> InjectionConfig:
        """Return the settings of the request, or today's if the receipt does not keep them."""
        if not receipt.config:
            return self.config_for(receipt.request.agent_id)
        return config_of(receipt.config, ReplayRequest())[0]


def _visibility(receipt: Receipt, config: InjectionConfig) -> Visibility:
    request = receipt.request
    channels = config.channels_told(request.scope.channel)
    return visible_to(request.scope, request.agent_id, config.shared_users, receipt.at, replay=True, channels=channels)


def _explained(receipt: Receipt, memory_id: str, found: Found) -> MemoryExplanation:
    reason, why, remedy = found
    return MemoryExplanation(receipt_id=receipt.id, memory_id=memory_id, reason=reason, why=why, remedy=remedy)


def _of_considered(receipt: Receipt, one: ConsideredMemory) -> MemoryExplanation:
    fate = fate_of(one, receipt)
    explained = _explained(receipt, one.id, (Absence.CONSIDERED, fate.why, fate.remedy))
    scores = {"verdict": one.verdict, "other": one.duplicate_of, "cosine": one.cosine, "keyword": one.keyword}
    return explained.model_copy(update=scores)


def _unknown(tenant: str) -> Found:
    why = f"the tenant {tenant} has no memory with this id; it may have been deleted"
    return Absence.UNKNOWN, why, "look for it in the list of memories, or store it"


def _not_searched(receipt: Receipt) -> Found | None:
    if receipt.outcome is not Outcome.SKIPPED:
        return None
    skipped = skipped_because(receipt) or ("the request was skipped", None)
    return Absence.NOT_SEARCHED, f"nothing was searched for: {skipped[0]}", skipped[1]


def hidden(memory: Memory, receipt: Receipt, visibility: Visibility) -> Found | None:
    """Return why a request could not see a memory, `None` if it could. Pure."""
    at = receipt.at
    if memory.created_at is not None and memory.created_at > at:
        return Absence.NEWER, "it is younger than the request", "ask again: it can come now"
    if (owner := _foreign_owner(memory, receipt, visibility)) is not None:
        return Absence.OTHER_OWNER, owner, "change whose it is, or ask as its owner"
    if is_superseded(memory, at):
        return (
            Absence.REPLACED,
            "another memory had replaced it",
            "correct the one that replaced it, or delete that one",
        )
    if memory.valid_until is not None and memory.valid_until <= at:
        return Absence.EXPIRED, f"it was valid until {memory.valid_until:%Y-%m-%d}", "change valid_until"
    least = receipt.request.min_importance
    if least is not None and memory.importance < least:
        why = f"the request asked for an importance of {least:g} at least, and it has {memory.importance:g}"
        return Absence.TOO_UNIMPORTANT, why, "raise its importance"
    return None


def _foreign_owner(memory: Memory, receipt: Receipt, visibility: Visibility) -> str | None:
    """Return whose memory it is, and whose request it was, if they do not fit."""
    scope, asked = memory.scope, receipt.request.scope
    pairs = (
        ("user", scope.user, visibility.users, asked.user),
        ("agent", scope.agent, visibility.agents, asked.agent or receipt.request.agent_id),
        ("project", scope.project, visibility.projects, asked.project),
    )
    for kind, owner, seen, asker in pairs:
        if owner is not None and owner not in seen:
            return f"it belongs to the {kind} {owner}; this request {_was_of(kind, asker)}"
    room = memory.room
    if room is not None and visibility.channels is not None and room not in visibility.channels:
        return f"it belongs to the channel {room}; this request {_was_of('channel', asked.channel)}"
    return None


def _was_of(kind: str, asker: str | None) -> str:
    return f"named no {kind}" if asker is None else f"was of the {kind} {asker}"


def _passed_over(memory: Memory, one: ConsideredMemory) -> bool:
    """Return whether a memory that is pinned was only found by a search, where relevance decided."""
    return memory.pinned and one.source is not ItemSource.PINNED and one.verdict in _BY_RELEVANCE


def _too_many_pinned(pinned: int, most: int) -> Found:
    """Return why a pinned memory did not come, by how many are pinned today."""
    why = f"there are {counted(pinned, 'pinned memory', 'pinned memories')}, and a block holds {most} at most"
    if pinned > most:
        return Absence.TOO_MANY_PINNED, why, "unpin others, raise max_total, or prefer it with pinned_sort = importance"
    why = f"{why}: there is room for it today, so it was pinned after the request, or others were pinned then"
    return Absence.TOO_MANY_PINNED, why, "run the request again to see what it gets now"


def _of_standing(receipt: Receipt, memory_id: str, standing: Standing, config: InjectionConfig) -> MemoryExplanation:
    """Explain by scores and places why the searches did not bring a memory that they could see."""
    explained = _explained(receipt, memory_id, _by_numbers(standing, config, receipt.at))
    return explained.model_copy(
        update={
            "cosine": standing.cosine,
            "keyword": standing.keyword,
            "meaning_place": standing.meaning_place,
            "words_place": standing.words_place,
        }
    )


def _by_numbers(standing: Standing, config: InjectionConfig, at: datetime) -> Found:
    places = [place for place in (standing.meaning_place, standing.words_place) if place is not None]
    least = config.contextual_min_score if config.contextual_min_score is not None else standing.least_cosine
    closer = "store it in words that are closer to such a message, or add a cue to it"
    if standing.cosine is not None and least is not None and standing.cosine < least:
        why = f"it is too far from the message: its similarity is {standing.cosine:.2f}, and {least:.2f} is needed"
        return Absence.TOO_FAR, why, closer
    if places and min(places) > config.search_limit:
        why = f"{min(places) - 1} memories are closer, and each search brings {config.search_limit}"
        return Absence.OUTSIDE_SEARCHES, why, f"raise search_limit to {min(places)}, or {closer}"
    if not places:
        what = (
            f"more than {LOOKED_AT} memories are closer" if standing.cosine is not None else "it shares no word with it"
        )
        return Absence.OUTSIDE_SEARCHES, f"no search found it for the message: {what}", closer
    why = f"the searches reach it today (place {min(places)}), so it, or what the request saw, has changed since"
    return Absence.OUTSIDE_SEARCHES, why, "run the request again to see what it gets now"
