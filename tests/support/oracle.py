"""Scripted models that know the labels of a world: one that always chooses right, and one that chooses the worst."""

import json
from collections.abc import Callable, Mapping

from tests.support.upstream import Answer, Responder, candidate_lines, last_text
from worker.live_triage import TRIAGE_TEXT_CHARS
from worker.prompts import clip_middle, neutralise, quote
from worker.render import shown_text
from worker.worlds import Task, World

MESSAGE_CHARS = 1600
SHOWN = 40
"""Characters of a memory by which it is known among candidates."""


def oracle(world: World) -> Responder:
    """Chooses every essential memory that it is shown."""
    return _choosing(world, lambda task: task.essential)


def adversary(world: World) -> Responder:
    """Chooses every forbidden memory that it is shown; where there is none, everything."""
    return _choosing(world, lambda task: task.forbidden or frozenset(memory.id for memory in world.memories))


def _choosing(world: World, wanted: Callable[[Task], frozenset[str]]) -> Responder:
    tasks = {as_shown(task.request.message): task for task in world.tasks}
    texts = {memory.id: neutralise(memory.content)[:SHOWN] for memory in world.memories}

    def respond(body: dict[str, object]) -> Answer:
        task = _task(last_text(body), tasks)
        needles = [texts[key] for key in wanted(task)] if task else []
        ids = [number for number, line in candidate_lines(body).items() if any(text in line for text in needles)]
        return Answer(json.dumps({"relevant": ids, "sufficient": True}))

    return respond


def as_shown(message: str) -> str:
    """A message as the prompt has it."""
    return quote(clip_middle(shown_text(message, TRIAGE_TEXT_CHARS, mask=True), MESSAGE_CHARS))


def _task(prompt: str, tasks: Mapping[str, Task]) -> Task | None:
    """The task that a prompt is about; the longest message that is in it."""
    found = [message for message in tasks if f"Message: {message}" in prompt]
    return tasks[max(found, key=len)] if found else None
