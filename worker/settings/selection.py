"""Settings of `[memory_injection]` for selecting and rendering memories."""

from enum import StrEnum

from pydantic import Field

from hooks.contract import BlockFormat
from worker.domain.kinds import RelevanceProfile

from .search import SearchSettings


class Strategy(StrEnum):
    """How memories are selected from the candidates; `auto` uses the best that is available."""

    AUTO = "auto"
    LLM = "llm"
    DECISION = "decision"
    RELEVANCE = "relevance"
    DETERMINISTIC = "deterministic"

    @classmethod
    def _missing_(cls, value: object) -> "Strategy | None":
        """Accept the name used by earlier versions."""
        return cls.RELEVANCE if value == "judge" else None

    @property
    def asks_model(self) -> bool:
        """Whether a model other than the relevance model is asked, if there is one."""
        return self not in (Strategy.RELEVANCE, Strategy.DETERMINISTIC)


class TriageSettings(SearchSettings):
    """How memories are selected, and the limits of a block."""

    relative_cut: float = Field(
        default=0.8, ge=0.0, le=1.0, description="Without a model, the minimum score as a share of the best score."
    )
    confident_score: float | None = Field(
        default=None,
        ge=0.0,
        le=1.0,
        description="Minimum relevance (0 to 1) for injection without a model; default: fitted for the embedder.",
    )
    max_items: int = Field(default=5, ge=1, le=50, description="Maximum number of memories in a block.")
    max_total: int = Field(
        default=25, ge=1, le=100, description="Maximum number of memories in a block, including pinned ones."
    )
    max_chars: int = Field(default=6000, ge=200, le=100_000, description="Maximum length of a block in characters.")
    max_tokens: int | None = Field(
        default=None,
        ge=50,
        le=100_000,
        description="Maximum length of a block in tokens, estimated conservatively; default: no limit.",
    )
    max_item_chars: int = Field(
        default=600,
        ge=40,
        le=10_000,
        description="Maximum characters of a memory; of a longer one, the part nearest to the message is shown.",
    )
    format: BlockFormat = Field(
        default=BlockFormat.XML,
        description="Format of a block: xml (in a `<memory_context>` tag), sections (pinned and found memories apart, "
        "with their types) or plain (for hosts that escape angle brackets).",
    )
    mask_secrets: bool = Field(
        default=True, description="Mask passwords, keys and tokens in blocks and in requests to models."
    )
    show_count: bool = Field(
        default=True, description="Tell the user in Claude Code and Codex how many memories a prompt got."
    )
    strategy: Strategy = Field(
        default=Strategy.AUTO,
        description="How memories are selected: llm (a chat model), decision (a decision model), relevance (the "
        "relevance model), deterministic (search scores), or auto (the configured model, else the best available).",
    )
    relevance_profile: RelevanceProfile = Field(
        default=RelevanceProfile.BALANCED,
        description="How much the relevance model injects: cautious (few irrelevant memories), balanced, or generous "
        "(more relevant memories, but also more irrelevant ones).",
    )
    prompt: str = Field(
        default="triage",
        pattern=r"^[a-z][a-z0-9_-]*$",
        description="Id of the prompt for the chat model; if it does not exist, the default prompt is used.",
    )
    models: tuple[str, ...] = Field(
        default=(),
        description="Models in order of preference; the next one is used if one fails and time remains. Default: the "
        "service's `model`.",
    )
    triage_candidates: int = Field(
        default=20, ge=1, le=50, description="Maximum number of candidates shown to the model."
    )
    max_recalls: int = Field(
        default=3, ge=1, le=3, description="Maximum number of recalls per request, including the first."
    )
