"""Programs that an orchestrator runs at its hook points. See `docs/automations.md`."""

from .model import (
    Automation,
    AutomationError,
    AutomationMissing,
    AutomationRejected,
    AutomationStatus,
    HookPoint,
    Kind,
    Lifetime,
    RegistryUnavailable,
)
from .outcome import AutomationRun, HookOutcome, RunStatus
from .registry import Registry, default_registry_path
from .runner import AutomationRunner

__all__ = [
    "Automation",
    "AutomationError",
    "AutomationMissing",
    "AutomationRejected",
    "AutomationRun",
    "AutomationRunner",
    "AutomationStatus",
    "HookOutcome",
    "HookPoint",
    "Kind",
    "Lifetime",
    "Registry",
    "RegistryUnavailable",
    "RunStatus",
    "default_registry_path",
]
