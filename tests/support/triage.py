"""What tests of triage are made of: candidates, a task, a recall that is told what it finds, a selector."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from tests.support.scripted_model import ScriptedModel
from worker.domain.memory import Candidate, CandidateVerdict, Memory, Recalled, RecallQuery, Selection, SelectionTask
from worker.domain.model_profile import ModelProfile
from worker.ports.models import ChatModel
from worker.triage.breaker import CircuitBreaker
from worker.triage.chat_selector import LlmSelector
from worker.triage.live_selector import LiveSelector, ask_chat
from worker.triage.model_pool import ModelPool
from worker.triage.prompt_files import Prompt, default_prompts_dir, load_prompts

PROMPT = load_prompts(default_prompts_dir())["triage"]
NOW = datetime(2026, 3, 1, tzinfo=UTC)


def candidate(identity: str, text: str) -> Candidate:
    memory = Memory(id=identity, content=text, created_at=datetime(2026, 1, 10, tzinfo=UTC))
    return Candidate(memory, cosine=0.5, keyword=1.0, relevance=0.5, score=0.5)


def many(count: int, text: str = "note") -> tuple[Candidate, ...]:
    return tuple(candidate(f"m{i}", f"{text} {i}") for i in range(1, count + 1))


def task(message: str = "Who tunes the reed organ?") -> SelectionTask:
    return SelectionTask(message, None, (), message, NOW)


class Memories:
    """A recall that brings what its queries are said to bring, and remembers what it was asked."""

    def __init__(self, found: dict[str, Recalled] | None = None, error: Exception | None = None) -> None:
        self.found = found or {}
        self.error = error
        self.asked: list[RecallQuery] = []

    async def __call__(self, query: RecallQuery) -> Recalled:
        self.asked.append(query)
        if self.error is not None:
            raise self.error
        return self.found.get(query.query, Recalled(query.query))


def selector(model: ScriptedModel, breaker: CircuitBreaker | None = None, window: int = 8192) -> LlmSelector:
    return LlmSelector(model, PROMPT, breaker or CircuitBreaker(), present=lambda text: text, window=window)


def live_triage(models: Sequence[ChatModel], prompt: Callable[[], Prompt] = lambda: PROMPT) -> LiveSelector:
    """Triage by these models, in this order, as the service does it."""
    by_name = {model.name: model for model in models}
    pool = ModelPool[ChatModel](lambda profile: by_name[profile.name], lambda name: ModelProfile(name=name))
    return LiveSelector(lambda _: tuple(by_name), ask_chat(pool, lambda _: prompt()))


def ids(selection: Selection) -> list[str]:
    return [candidate.memory.id for candidate in selection.chosen]


def verdicts(selection: Selection) -> dict[str, CandidateVerdict]:
    return {dropped.candidate.memory.id: dropped.verdict for dropped in selection.dropped}
