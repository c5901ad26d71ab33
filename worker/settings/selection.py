"""What is chosen of the candidates and by whom: settings of `[memory_injection]` that follow those of the search."""

from enum import StrEnum

from pydantic import Field

from worker.domain.kinds import RelevanceProfile

from .search import SearchSettings


class Strategy(StrEnum):
    """Who judges the candidates. `auto` takes the model that is configured, else the best of what is there."""

    AUTO = "auto"
    LLM = "llm"
    DECISION = "decision"
    JUDGE = "judge"
    DETERMINISTIC = "deterministic"


class FirstRecall(StrEnum):
    """Who makes the first search: the service, before the model is asked, or the model itself."""

    SERVICE = "service"
    MODEL = "model"


class CandidateOrder(StrEnum):
    """In which order a model is shown the candidates: as found, or shuffled, the same way for the same request."""

    FOUND = "found"
    SHUFFLED = "shuffled"


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
        description="Who judges the candidates: llm (a chat model), decision (a decision model), judge, deterministic, "
        "or auto (the configured model by its kind, without one the best of what is there).",
    )
    judge_point: RelevanceProfile = Field(
        default=RelevanceProfile.BALANCED,
        description="What the judge is set to: clean98 (hardly ever anything where nothing is needed), balanced, or "
        "recall (more of what is needed, and more besides).",
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
    first_recall: FirstRecall = Field(
        default=FirstRecall.SERVICE,
        description="Who makes the first search: service (most requests then need one model call) or model (it makes "
        "all of them).",
    )
    candidate_order: CandidateOrder = Field(
        default=CandidateOrder.FOUND,
        description="Order in which a model is shown the candidates: found, or shuffled (the same for a request).",
    )
    verdict_cache_s: float = Field(
        default=0.0,
        ge=0.0,
        le=86_400.0,
        description="Seconds in which a model's choice counts for the same task, candidates and prompt; 0 asks anew.",
    )
    triage_candidates: int = Field(default=12, ge=1, le=50, description="Most candidates the model is shown.")
    max_recalls: int = Field(default=3, ge=1, le=3, description="Most searches per request, the first one included.")
