"""The `worker:pre_execution` hook: what an orchestrator calls before every run of a worker.

Names are loaded when they are first used, so that the stand-alone command in this package starts without them.
"""

from importlib import import_module

TYPE_CHECKING = False  # `typing` alone would double the stand-alone command's start
if TYPE_CHECKING:
    from typing import Any

    from .blocks import find_blocks
    from .client import MeeseeksClient
    from .contract import Engine, InjectionRequest, InjectionResult, Outcome, Reason, Scope, SessionEvent
    from .history import strip
    from .post_execution import PostExecutionHook
    from .pre_execution import PreExecutionHook
    from .sync import SyncPreExecutionHook
    from .sync_client import SyncMeeseeksClient

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

_HOMES = {
    "MeeseeksClient": ".client",
    "PostExecutionHook": ".post_execution",
    "PreExecutionHook": ".pre_execution",
    "SyncMeeseeksClient": ".sync_client",
    "SyncPreExecutionHook": ".sync",
    "find_blocks": ".blocks",
    "strip": ".history",
}


def __getattr__(name: str) -> "Any":
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES.get(name, ".contract"), __name__), name)
