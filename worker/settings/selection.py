"""What is chosen of the candidates and by whom: settings of `[memory_injection]` that follow those of the search."""

from enum import StrEnum

from pydantic import Field

from worker.domain.kinds import RelevanceProfile

from .search import SearchSettings


class Strategy(StrEnum):
    """Who chooses among the candidates; `auto` takes the configured model, else the best of what is there."""

    AUTO = "auto"
    LLM = "llm"
    DECISION = "decision"
    RELEVANCE = "relevance"
    DETERMINISTIC = "deterministic"

    @classmethod
    def _missing_(cls, value: object) -> "Strategy | None":
        """Accept the value of earlier versions."""
        return cls.RELEVANCE if value == "judge" else None


class TriageSettings(SearchSettings):
    """What a block may hold, and who chooses what goes in."""

    relative_cut: float = Field(
        default=0.8, ge=0.0, le=1.0, description="Without a model, a memory must reach this share of the best score."
    )
    confident_score: float | None = Field(
        default=None,
        ge=0.0,
        le=1.0,
        description="Relevance (0 to 1) from which a memory may be injected without a model; unset: the embedder's.",
    )
    max_items: int = Field(default=5, ge=1, le=50, description="Most memories in a block.")
    max_total: int = Field(default=25, ge=1, le=100, description="Hard cap on memories in a block, over every source.")
    max_chars: int = Field(default=6000, ge=200, le=100_000, description="Most characters of a block.")
    max_tokens: int | None = Field(
        default=None,
        ge=50,
        le=100_000,
        description="Most tokens of a block, by an estimate that errs upwards; unset: no such limit.",
    )
    max_item_chars: int = Field(
        default=600,
        ge=40,
        le=10_000,
        description="Longest memory that is injected whole; longer ones end in an ellipsis.",
    )
    mask_secrets: bool = Field(
        default=True, description="Mask passwords, keys and tokens in whatever leaves the store for a block or a model."
    )

    strategy: Strategy = Field(
        default=Strategy.AUTO,
        description="Who chooses among the candidates: llm (a chat model), decision (a decision model), relevance (the "
        "relevance model), deterministic (search scores), or auto (the configured model, else the best of the others).",
    )
    relevance_profile: RelevanceProfile = Field(
        default=RelevanceProfile.BALANCED,
        description="How much the relevance model injects: cautious (hardly ever anything needless), balanced, or "
        "generous (more of what is needed, and more besides).",
    )
    prompt: str = Field(
        default="triage",
        pattern=r"^[a-z][a-z0-9_-]*$",
        description="Id of the prompt that a chat model is asked with; one that is not there leaves the usual one.",
    )
    models: tuple[str, ...] = Field(
        default=(),
        description="Models in the order in which they are tried, each when the one before fails and time remains; "
        "empty takes the service's `model`.",
    )
    triage_candidates: int = Field(default=12, ge=1, le=50, description="Most candidates the model is shown.")
    max_recalls: int = Field(default=3, ge=1, le=3, description="Most searches per request, the first one included.")
