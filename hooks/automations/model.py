"""What an automation is: one program that runs at a hook point of an orchestrator. Pure."""

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
    """Base of what can go wrong with automations; the message says what to do."""


class AutomationRejected(AutomationError):
    """An automation may not be registered as it is."""


class AutomationMissing(AutomationError):
    """There is no automation of that name."""


class RegistryUnavailable(AutomationError):
    """The registry cannot be read or written."""


class HookPoint(StrEnum):
    """Where in its way an orchestrator runs automations."""

    PRE_EXECUTION = "worker:pre_execution"
    POST_EXECUTION = "worker:post_execution"


class Lifetime(StrEnum):
    """Column `mode`: what an automation keeps from run to run."""

    PERSISTENT = "persistent"
    EPHEMERAL = "ephemeral"


class AutomationStatus(StrEnum):
    ACTIVE = "active"
    DISABLED = "disabled"


class Kind(StrEnum):
    """What `script_path` is: a program's file, or `module:name` of something that Python calls."""

    SCRIPT = "script"
    PYTHON = "python"


@dataclass(frozen=True, slots=True)
class Automation:
    """One row of the registry. `position` orders a hook point's automations, then their age does.

    `script_path` and `workspace_dir` may begin with `~`. An entry in Python that begins with a dot is this package's.
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
        """The program's file."""
        return Path(self.script_path).expanduser()

    @property
    def workspace(self) -> Path | None:
        return Path(self.workspace_dir).expanduser() if self.workspace_dir else None


def check(automation: Automation) -> None:
    """Raise `AutomationRejected` where the fields of an automation cannot be meant."""
    if not _NAME.fullmatch(automation.name):
        raise AutomationRejected(
            f"{automation.name!r} is no name: use letters, digits, dots, dashes and underscores, at most 100"
        )
    if automation.hook_point not in set(HookPoint):
        raise AutomationRejected(f"{automation.hook_point!r} is no hook point; there are {', '.join(HookPoint)}")
    if not 1 <= automation.timeout_ms <= MAX_TIMEOUT_MS:
        raise AutomationRejected(f"a timeout is 1 to {MAX_TIMEOUT_MS} ms, not {automation.timeout_ms}")
    if automation.kind is Kind.PYTHON and not _ENTRY.fullmatch(automation.script_path):
        raise AutomationRejected(f"{automation.script_path!r} is no entry in Python; write it as module:name")
