"""What a trial of a message returns, apart from what runs it, so that commands load fast."""

from enum import StrEnum

from worker.domain.memory import DomainModel
from worker.domain.receipt import Receipt

MODEL_MS = 30_000
"""Time limit of a trial with a model, so that a slow one shows its choice, too."""

TRIAL_S = 2 * MODEL_MS / 1000
"""Maximum seconds of one trial."""


class Way(StrEnum):
    """A way of choosing: search scores, the relevance model, the agent's model, and this model with another prompt."""

    SEARCH = "search"
    RELEVANCE = "relevance"
    MODEL = "model"
    PROMPT = "prompt"


class Trial(DomainModel):
    """What one way of choosing would give; `limit_ms` is the time that the agent's settings allow."""

    way: Way
    receipt: Receipt
    limit_ms: int


class PromptText(DomainModel):
    """The prompt that an agent's model is asked with, as a prompt file, and the model, `None` without one."""

    name: str
    text: str
    model: str | None
