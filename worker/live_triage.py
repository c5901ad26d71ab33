"""Triage with the prompt in force: prompt files may change while the service runs."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from .breaker import CircuitBreaker
from .deadline import Deadline
from .errors import PromptError
from .models import Recalled, RecallTool, Selection, SelectionTask
from .prompts import Prompt, load_prompts
from .protocols import ChatModel
from .render import shown_text
from .settings import InjectionConfig
from .triage import LlmSelector
from .triage_prompt import check_prompt

TRIAGE_PROMPT = "triage"
TRIAGE_TEXT_CHARS = 4000


class LivePrompts:
    """The prompts of a folder, swapped as a whole when they are sound. Raises `PromptError` when they are not at first.

    `report` is told what is wrong with a changed folder, or `None` once nothing is any more.
    """

    def __init__(self, directory: Path, report: Callable[[str | None], None] = lambda _: None) -> None:
        self._directory = directory
        self._report = report
        self._triage = _load(directory)

    @property
    def triage(self) -> Prompt:
        return self._triage

    async def reload(self) -> None:
        """Read the folder again; one that is broken changes nothing and is reported."""
        try:
            self._triage = await asyncio.to_thread(_load, self._directory)
        except PromptError as error:
            self._report(str(error))
        else:
            self._report(None)


def _load(directory: Path) -> Prompt:
    prompts = load_prompts(directory)
    if TRIAGE_PROMPT not in prompts:
        raise PromptError(f"{directory}: there is no prompt with the id {TRIAGE_PROMPT!r}")
    check_prompt(prompts[TRIAGE_PROMPT])
    return prompts[TRIAGE_PROMPT]


class LiveTriage:
    """Implements `worker.protocols.Selector`: a request keeps the prompt and the masking that it began with."""

    def __init__(self, model: ChatModel, prompt: Callable[[], Prompt], breaker: CircuitBreaker, *, window: int) -> None:
        self._model = model
        self._prompt = prompt
        self._breaker = breaker
        self._window = window

    async def select(
        self, task: SelectionTask, recalled: Recalled, recall: RecallTool, config: InjectionConfig, deadline: Deadline
    ) -> Selection:
        def present(content: str) -> str:
            return shown_text(content, TRIAGE_TEXT_CHARS, mask=config.mask_secrets)

        selector = LlmSelector(self._model, self._prompt(), self._breaker, present=present, window=self._window)
        return await selector.select(task, recalled, recall, config, deadline)
