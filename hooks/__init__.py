"""The `worker:pre_execution` hook: what an orchestrator calls before every run of a worker.

Names are loaded when they are first used, so that the stand-alone command in this package starts without them.
"""

from importlib import import_module

TYPE_CHECKING = False  # `typing` alone would double the stand-alone command's start
if TYPE_CHECKING:
    from typing import Any

    from .contract import Engine, InjectionRequest, InjectionResult, Outcome, Reason, Scope, SessionEvent
    from .pre_execution import PreExecutionHook

__all__ = [
    "Engine",
    "InjectionRequest",
    "InjectionResult",
    "Outcome",
    "PreExecutionHook",
    "Reason",
    "Scope",
    "SessionEvent",
]


def __getattr__(name: str) -> "Any":
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = ".pre_execution" if name == "PreExecutionHook" else ".contract"
    return getattr(import_module(home, __name__), name)
