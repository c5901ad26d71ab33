"""A chat model says which memories an answer used: slower than comparing words, and able to read."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from hooks.contract import Reason
from worker.domain.deadline import Deadline
from worker.domain.errors import ModelError, PromptError
from worker.domain.model_calls import ChatRequest
from worker.injection.redaction import without_secrets
from worker.ports.models import ChatModel
from worker.triage.answer_parsing import Choice, parse_choice
from worker.triage.prompt_files import Prompt, clip_middle, default_prompts_dir, load_prompts, quote

USAGE_PROMPT = "usage"

MOST_CHARS = {"message": 1_500, "answer": 4_000, "memory": 400}
"""Characters of each text that the model is shown."""

Open = Callable[[str, Deadline], Awaitable[ChatModel]]
"""The chat model of an agent. Raises `ModelError` where there is none."""


class UsageJudge:
    """Asks the agent's chat model, with the prompt `usage` of `folder`, else the shipped one, read for each answer."""

    def __init__(self, open_model: Open, folder: Path) -> None:
        self._open = open_model
        self._folder = folder

    async def used(
        self, agent_id: str, texts: Mapping[str, str], answer: str, message: str, deadline: Deadline
    ) -> frozenset[str]:
        """Ids of those `texts` that the answer used. Raises `ModelError`."""
        model = await self._open(agent_id, deadline)
        prompt = await asyncio.to_thread(_prompt, self._folder)
        reply = await model.complete(request_of(prompt, texts, answer, message), deadline)
        choice = parse_choice(reply.text, len(texts))
        if not isinstance(choice, Choice):
            raise ModelError(Reason.MODEL_UNPARSEABLE, f"{model.name}: not the JSON that was asked for")
        ids = list(texts)
        return frozenset(ids[number - 1] for number in choice.ids)


def request_of(prompt: Prompt, texts: Mapping[str, str], answer: str, message: str) -> ChatRequest:
    """The model's call: everything masked, quoted and clipped. Pure."""
    lines = [f"[{number}] {_quoted(text, 'memory')}" for number, text in enumerate(texts.values(), 1)]
    values = {"task": _quoted(message, "message"), "answer": _quoted(answer, "answer"), "candidates": "\n".join(lines)}
    asked = {"role": "user", "content": prompt.fill(prompt.user, values)}
    return ChatRequest((*prompt.prefix(), asked), max_tokens=prompt.max_tokens, temperature=prompt.temperature)


def _quoted(text: str, kind: str) -> str:
    return quote(clip_middle(without_secrets(text), MOST_CHARS[kind]))


def _prompt(folder: Path) -> Prompt:
    try:
        own = load_prompts(folder).get(USAGE_PROMPT)
        return own or load_prompts(default_prompts_dir())[USAGE_PROMPT]
    except PromptError as error:
        raise ModelError(Reason.MODEL_ERROR, f"the prompt of the usage judge: {error}") from error
