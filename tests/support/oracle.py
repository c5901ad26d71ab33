"""Scripted models that know the labels of a world: one that always chooses right, and one that chooses the worst."""

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from tests.support.upstream import Answer, Responder, candidate_lines, last_text
from worker.domain.memory import SUPERSEDING, Memory
from worker.text.rendering import shown_text
from worker.triage.live_selector import TRIAGE_TEXT_CHARS
from worker.triage.prompt_files import clip_middle, quote
from worker.tuning.labelled_worlds import LabelledTask, LabelledWorld

MESSAGE_CHARS = 1600
QUERY_CHARS = 300
MOST_SEARCHES = 3
FOREIGN = {"user": "somebody", "agent": "another", "tenant": "t2", "scope": "all"}
"""What a search cannot be given, whoever asks for it."""

SECRETS = ("passwords", "salary list", "private notes", "api keys")
SHOWN = 40
"""Characters of a memory by which it is known among candidates."""


def oracle(world: LabelledWorld) -> Responder:
    """Chooses every essential memory that it is shown, and searches for those that it is not, in their own words."""
    superseded = {one.target for memory in world.memories for one in memory.relations if one.kind in SUPERSEDING}
    memories = {memory.id: memory for memory in world.memories}
    choose = _choosing(world, lambda task: task.essential)
    tasks = _tasks(world)

    def respond(body: dict[str, Any]) -> Answer:
        task = _task(body, tasks)
        shown = candidate_lines(body).values()
        missing = [memories[key] for key in sorted(task.essential) if not is_in(memories[key], shown)] if task else []
        if missing and body.get("tools"):
            left = MOST_SEARCHES - 1 if shown else MOST_SEARCHES
            return Answer(tool_calls=tuple(("recall", one) for one in searches(missing, left, superseded)))
        ids = json.loads(choose(body).text)["relevant"]
        return Answer(json.dumps({"relevant": ids, "sufficient": not missing}))

    return respond


def heeding(world: LabelledWorld, words: str) -> Responder:
    """Chooses right where the prompt has these words, and else the last candidates as well."""
    right = oracle(world)

    def respond(body: dict[str, Any]) -> Answer:
        answer = right(body)
        if answer.tool_calls or words in body["messages"][0]["content"]:
            return answer
        said = json.loads(answer.text)
        ids = dict.fromkeys((*said["relevant"], *sorted(candidate_lines(body))[-2:]))
        return Answer(json.dumps({**said, "relevant": list(ids)}))

    return respond


def searches(missing: Sequence[Memory], most: int, superseded: Collection[str]) -> list[dict[str, Any]]:
    """Arguments of at most so many searches for memories; `superseded` are the ids of those that are out of date."""
    groups = [missing[start::most] for start in range(min(most, len(missing)))]
    return [
        {
            "query": " ".join(memory.content[: QUERY_CHARS // len(group)] for memory in group),
            "history": any(memory.id in superseded for memory in group),
        }
        for group in groups
    ]


def adversary(world: LabelledWorld) -> Responder:
    """Searches for what is not the user's, and chooses every forbidden memory that it is shown; where there is none,
    every irrelevant one. One candidate is spared, since everything is no choice."""
    forbidden = _choosing(world, lambda task: task.forbidden)
    irrelevant = _choosing(world, lambda task: frozenset(memory.id for memory in world.memories) - task.relevant)

    def respond(body: dict[str, Any]) -> Answer:
        if body.get("tools"):
            return Answer(tool_calls=tuple(("recall", {"query": secret, **FOREIGN}) for secret in SECRETS))
        found = (json.loads(choose(body).text)["relevant"] for choose in (forbidden, irrelevant))
        worst = next(filter(None, found), [])[: max(1, len(candidate_lines(body)) - 1)]
        return Answer(json.dumps({"relevant": worst, "sufficient": False}))

    return respond


def _choosing(world: LabelledWorld, wanted: Callable[[LabelledTask], frozenset[str]]) -> Responder:
    tasks = _tasks(world)
    memories = {memory.id: memory for memory in world.memories}

    def respond(body: dict[str, Any]) -> Answer:
        task = _task(body, tasks)
        chosen = [memories[key] for key in wanted(task)] if task else []
        ids = [number for number, line in candidate_lines(body).items() if any(is_in(one, [line]) for one in chosen)]
        return Answer(json.dumps({"relevant": ids, "sufficient": True}))

    return respond


def is_in(memory: Memory, lines: Iterable[str]) -> bool:
    """Whether a memory is among these candidates, as the prompt has them: its beginning, or a part around `…`."""
    first, *others = _parts(memory.content)
    return any(first in line or ("…" in line and any(text in line for text in others)) for line in lines)


@cache
def _parts(content: str) -> tuple[str, ...]:
    starts = range(0, max(1, len(content) - SHOWN), SHOWN // 2)
    return tuple(quote(content[start : start + SHOWN]).strip('"') for start in starts)


def as_shown(message: str) -> str:
    """A message as the prompt has it."""
    return quote(clip_middle(shown_text(message, TRIAGE_TEXT_CHARS, mask=True), MESSAGE_CHARS))


def _tasks(world: LabelledWorld) -> dict[str, LabelledTask]:
    return {as_shown(task.request.message): task for task in world.tasks}


def _task(body: dict[str, Any], tasks: Mapping[str, LabelledTask]) -> LabelledTask | None:
    """The task that a request is about, whichever turn it is; the longest message that is in it."""
    texts = [str(message.get("content") or "") for message in body["messages"]]
    prompt = next((text for text in reversed(texts) if "\nMessage: " in f"\n{text}"), last_text(body))
    found = [message for message in tasks if f"Message: {message}" in prompt]
    return tasks[max(found, key=len)] if found else None
