"""The automation model: one program that runs at a hook point of an orchestrator."""

import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

MAX_TIMEOUT_MS = 60_000
DEFAULT_TIMEOUT_MS = 3000
DEFAULT_POSITION = 100

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_ENTRY = re.compile(r"\.?[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


class AutomationError(Exception):
    """Base of the errors of automations."""


class AutomationRejected(AutomationError):
    """The automation is invalid or its name is taken."""


class AutomationMissing(AutomationError):
    """There is no automation with that name."""


class RegistryUnavailable(AutomationError):
    """The registry cannot be read or written."""


class HookPoint(StrEnum):
    """Where an orchestrator runs automations."""

    PRE_EXECUTION = "worker:pre_execution"
    POST_EXECUTION = "worker:post_execution"


class Lifetime(StrEnum):
    """The column `mode`: whether an automation keeps its workspace and Python instance between runs."""

    PERSISTENT = "persistent"
    EPHEMERAL = "ephemeral"


class AutomationStatus(StrEnum):
    ACTIVE = "active"
    DISABLED = "disabled"


class Kind(StrEnum):
    """Whether `script_path` is a program file or a Python entry `module:name`."""

    SCRIPT = "script"
    PYTHON = "python"


@dataclass(frozen=True, slots=True)
class Automation:
    """A row of the registry. Automations of a hook point run by `position`, then by age.

    `script_path` and `workspace_dir` may start with `~`. Python entries that start with a dot are relative to this
    package.
    """

    name: str
    script_path: str
    hook_point: str = HookPoint.PRE_EXECUTION
    mode: Lifetime = Lifetime.PERSISTENT
    status: AutomationStatus = AutomationStatus.ACTIVE
    blocking: bool = True
    kind: Kind = Kind.SCRIPT
    workspace_dir: str | None = None
    timeout_ms: int = DEFAULT_TIMEOUT_MS
    position: int = DEFAULT_POSITION
    created_at: str | None = None
    updated_at: str | None = None

    @property
    def script(self) -> Path:
        return Path(self.script_path).expanduser()

    @property
    def workspace(self) -> Path | None:
        return Path(self.workspace_dir).expanduser() if self.workspace_dir else None


def check(automation: Automation) -> None:
    """Raise `AutomationRejected` for invalid fields."""
    if not _NAME.fullmatch(automation.name):
        raise AutomationRejected(
            f"invalid name {automation.name!r}; use at most 100 letters, digits, dots, dashes and underscores"
        )
    if automation.hook_point not in set(HookPoint):
        raise AutomationRejected(f"unknown hook point {automation.hook_point!r}; use {' or '.join(HookPoint)}")
    if not 1 <= automation.timeout_ms <= MAX_TIMEOUT_MS:
        raise AutomationRejected(f"the timeout must be 1 to {MAX_TIMEOUT_MS} ms, not {automation.timeout_ms}")
    if automation.kind is Kind.PYTHON and not _ENTRY.fullmatch(automation.script_path):
        raise AutomationRejected(f"invalid Python entry {automation.script_path!r}; use module:name")
