"""Client of Meeseeks: hooks that an orchestrator calls before and after each worker run.

Names load on first use, so that the stand-alone command in this package starts fast.
"""

from importlib import import_module

TYPE_CHECKING = False  # `typing` alone would double the stand-alone command's start
if TYPE_CHECKING:
    from typing import Any

    from .contract import Engine, InjectionRequest, InjectionResult, Outcome, Reason, Scope, SessionEvent
    from .contract.blocks import find_blocks
    from .history import strip
    from .http.client import MeeseeksClient
    from .http.sync_client import SyncMeeseeksClient
    from .post_execution import PostExecutionHook
    from .pre_execution import PreExecutionHook
    from .sync import SyncPreExecutionHook

__all__ = [
    "Engine",
    "InjectionRequest",
    "InjectionResult",
    "MeeseeksClient",
    "Outcome",
    "PostExecutionHook",
    "PreExecutionHook",
    "Reason",
    "Scope",
    "SessionEvent",
    "SyncMeeseeksClient",
    "SyncPreExecutionHook",
    "find_blocks",
    "strip",
]

_MODULES = {
    "MeeseeksClient": ".http.client",
    "PostExecutionHook": ".post_execution",
    "PreExecutionHook": ".pre_execution",
    "SyncMeeseeksClient": ".http.sync_client",
    "SyncPreExecutionHook": ".sync",
    "find_blocks": ".contract.blocks",
    "strip": ".history",
}


def __getattr__(name: str) -> "Any":
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES.get(name, ".contract"), __name__), name)
