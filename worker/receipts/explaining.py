"""Explain a receipt in words: what was near, what decided, by how much it missed, and what would change it. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from hooks.contract import Engine, ItemSource, Outcome, Reason
from worker.domain.memory import CandidateVerdict
from worker.domain.receipt import ConsideredMemory, Receipt
from worker.text.counts import counted
from worker.text.excerpts import shortened
from worker.text.rendering import flatten

MOST_SHOWN = 6
"""Considered memories that an explanation names."""

TEXT_CHARS = 90
NAME_CHARS = 40

DELETED = "(deleted since)"
"""What is shown instead of a text."""

_V = CandidateVerdict

WHY: Mapping[CandidateVerdict, str] = {
    _V.CHOSEN: "injected",
    _V.BELOW_THRESHOLD: "too far from the message",
    _V.SUPERSEDED: "replaced by another memory",
    _V.NAMESAKE: "about somebody else of the same name",
    _V.OVER_POOL: "ranked after the best pool_limit memories",
    _V.BELOW_CUT: "not relevant enough, or much less relevant than others",
    _V.ALREADY_SHOWN: "already in the context of the session",
    _V.DUPLICATE: "says the same as another memory",
    _V.NOT_SELECTED: "left out by the model or strategy that selected",
    _V.OVER_ITEMS: "ranked after the best max_items memories",
    _V.OVER_CHARS: "too many characters for the block",
    _V.OVER_TOKENS: "too many tokens for the block",
}
"""Explanation of each verdict."""

_REMEDIES: Mapping[CandidateVerdict, str] = {
    _V.BELOW_THRESHOLD: "store the memory in words that are closer to such a message, or name with --entity what it is "
    "about; contextual_min_score and keyword_min_score set how close it must be",
    _V.SUPERSEDED: "ask about the past, or delete the memory that replaced it",
    _V.NAMESAKE: "name the person in full in the message or in the memory",
    _V.OVER_POOL: "raise pool_limit",
    _V.ALREADY_SHOWN: "nothing needs to change: the session has it already. It may come again after "
    "context_window_depth turns, or when the context is compacted or cleared",
    _V.DUPLICATE: "nothing needs to change: the other memory stands for it",
    _V.NOT_SELECTED: "change the prompt of the model, or label this request and evaluate prompts with it",
    _V.OVER_ITEMS: "raise max_items or max_total",
    _V.OVER_CHARS: "raise max_chars, or shorten the memory",
    _V.OVER_TOKENS: "raise max_tokens, or shorten the memory",
}

_CLOSER = "store the memory in words closer to such a message, give it such a message as a --cue, or use a model"

_SKIPPED: Mapping[Reason, tuple[str, str]] = {
    Reason.DISABLED: ("injection is switched off", "meeseeks settings set enabled true"),
    Reason.MODE_OFF: ("the mode is off", "meeseeks settings set mode always"),
    Reason.EMPTY_MESSAGE: ("the message says nothing that can be searched for", "write what the task is about"),
    Reason.SOURCE_SKIPPED: ("messages of this source get no memories", "remove the source from skip_sources"),
    Reason.SLASH_COMMAND: ("the message is a command for the host", "write the message without the command"),
    Reason.SKIP_PATTERN: ("the message matches one of skip_patterns", "change skip_patterns or force_patterns"),
    Reason.EMOJI_ONLY: ("the message has no words", "set skip_small_talk to false"),
    Reason.GREETING: ("the message is a greeting", "set skip_small_talk to false"),
    Reason.ACKNOWLEDGEMENT: ("the message is an acknowledgement", "set skip_small_talk to false"),
}

_NEXT_PROFILE = {"cautious": "balanced", "balanced": "generous"}

HOPELESS = 0.2
"""Probability below which no profile of the model that ships injects a memory."""


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of a considered memory, the numbers that decided, and what would change it."""

    verdict: str
    numbers: str
    remedy: str | None

    @property
    def why(self) -> str:
        return self.verdict + self.numbers


@dataclass(frozen=True, slots=True)
class Explanation:
    """One request in words: `near` are the considered memories, `change` is what would change the answer."""

    result: str
    decided: str
    near: tuple[str, ...]
    change: tuple[str, ...]
    correct: tuple[str, ...]


def explain(receipt: Receipt) -> Explanation:
    """Return why a request got what it got."""
    return Explanation(
        result=_result(receipt),
        decided=_decided(receipt),
        near=tuple(_near(one, receipt) for one in receipt.considered[:MOST_SHOWN]),
        change=tuple(_changes(receipt)),
        correct=tuple(_corrections(receipt)),
    )


def fate_of(one: ConsideredMemory, receipt: Receipt) -> Fate:
    """Return in words what became of a considered memory."""
    remedy = None if one.verdict is _V.CHOSEN else _remedy(one.verdict, receipt)
    return Fate(_why(one.verdict, receipt), _numbers(one, receipt), remedy)


def _result(receipt: Receipt) -> str:
    if receipt.outcome is Outcome.INJECTED:
        return f"{counted(len(receipt.chosen), 'memory was', 'memories were')} injected."
    if (skipped := skipped_because(receipt)) is not None:
        return f"Nothing was searched for: {skipped[0]}."
    if receipt.outcome is Outcome.ERROR:
        return f"Nothing was injected, because something failed: {receipt.reason}."
    if not receipt.considered:
        return "Nothing was injected: no memory that this request may see is near the message."
    return f"Nothing was injected: the nearest memory is {_why(receipt.considered[0].verdict, receipt)}."


def _why(verdict: CandidateVerdict, receipt: Receipt) -> str:
    """Return `WHY`; the relevance model compares a memory with a probability, not with other memories."""
    return "not relevant enough" if verdict is _V.BELOW_CUT and receipt.required is not None else WHY[verdict]


def skipped_because(receipt: Receipt) -> tuple[str, str] | None:
    """Return why nothing was searched for, and what to do about it."""
    if receipt.outcome is not Outcome.SKIPPED or receipt.reason is None:
        return None
    return _SKIPPED.get(receipt.reason)


def _decided(receipt: Receipt) -> str:
    profile = receipt.config.get("relevance_profile")
    name = receipt.model.name if receipt.model else "a model"
    decided = {
        Engine.LLM: f"The chat model {name} decided.",
        Engine.DECISION: f"The decision model {name} decided.",
        Engine.RELEVANCE_MODEL: f"The built-in relevance model decided, with the profile {profile}.",
        Engine.DETERMINISTIC: "Search scores alone decided.",
    }.get(receipt.engine, "Nothing had to be decided.")
    return f"{decided} This was a fallback: {receipt.reason}." if receipt.degraded and receipt.reason else decided


def _near(one: ConsideredMemory, receipt: Receipt) -> str:
    text = f"{one.id} {DELETED}" if one.deleted else flatten(one.text, TEXT_CHARS) or one.id
    source = "pinned; " if one.source is ItemSource.PINNED else ""
    other = f" ({one.duplicate_of})" if one.duplicate_of else ""
    through = f'; found through the cue "{one.cue}"' if one.cue else ""
    return f"{text} - {source}{_why(one.verdict, receipt)}{other}{_numbers(one, receipt)}{through}"


def _numbers(one: ConsideredMemory, receipt: Receipt) -> str:
    """Return the numbers that decided about a memory, and what they had to reach where that is known."""
    least = receipt.config.get("contextual_min_score")
    if one.verdict is _V.BELOW_THRESHOLD and one.cosine is not None:
        return f"; similarity {one.cosine:.2f}" + (f", needs {least:.2f}" if isinstance(least, float) else "")
    if one.probability is not None:
        decides = receipt.required is not None and one.verdict in (_V.CHOSEN, _V.BELOW_CUT)
        return f"; probability {one.probability:.2f}" + (f", needs {receipt.required:.2f}" if decides else "")
    return f"; relevance {one.relevance:.2f}" if one.relevance is not None else ""


def _changes(receipt: Receipt) -> Iterator[str]:
    if (skipped := skipped_because(receipt)) is not None:
        yield skipped[1]
        return
    if not receipt.considered:
        scope = receipt.request.scope
        seen = ", ".join(f"{key} {value}" for key, value in scope.model_dump().items() if value)
        yield f"store a memory about it, visible to: {seen}. `meeseeks list` shows what is stored"
        return
    verdicts = dict.fromkeys(one.verdict for one in receipt.considered if one.verdict is not _V.CHOSEN)
    for verdict in list(verdicts)[:3]:
        if remedy := _remedy(verdict, receipt):
            yield f"{_why(verdict, receipt)}: {remedy}"


def _remedy(verdict: CandidateVerdict, receipt: Receipt) -> str:
    """Return what would change a verdict; empty if it is no fault that some memories are not relevant."""
    if verdict is not _V.BELOW_CUT:
        return _REMEDIES[verdict]
    profile = _NEXT_PROFILE.get(str(receipt.config.get("relevance_profile")))
    if receipt.engine is not Engine.RELEVANCE_MODEL:
        return "lower relative_cut or confident_score, or use strategy = relevance"
    if _is_hopeless(receipt):
        return "" if receipt.chosen else f"no profile would inject it; {_CLOSER}"
    if profile is None:
        return f"the profile is generous already; {_CLOSER}"
    replay = f"meeseeks eval replay {receipt.id} --set relevance_profile={profile}"
    return f"a more generous profile may inject it, try: {replay}"


def _is_hopeless(receipt: Receipt) -> bool:
    """Return whether no memory that was not relevant enough came near to it."""
    missed = [one.probability for one in receipt.considered if one.verdict is _V.BELOW_CUT]
    return all(probability is not None and probability < HOPELESS for probability in missed)


def _corrections(receipt: Receipt) -> Iterator[str]:
    label = f"meeseeks eval label {receipt.id}"
    if receipt.chosen:
        yield f"If {_named(receipt.chosen[0], receipt)} was wrong: {label} --forbidden {receipt.chosen[0]}"
    missing = next((one.id for one in receipt.considered if one.id not in receipt.chosen), None)
    if missing:
        yield f"If {_named(missing, receipt)} was missing: {label} --essential {missing}"


def _named(memory_id: str, receipt: Receipt) -> str:
    text = next((one.text for one in receipt.considered if one.id == memory_id and not one.deleted), "")
    return f'"{shortened(flatten(text, TEXT_CHARS), NAME_CHARS)}"' if text else memory_id
