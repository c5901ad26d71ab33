"""What keeps the service of a user running: the user's systemd on Linux, launchd on macOS.

All calls of `systemctl` and `launchctl` go through `_called`. Methods raise `SettingsError`.
"""

import os
import plistlib
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from worker.domain.errors import SettingsError
from worker.settings.atomic_file import write_atomically

CALL_S = 30.0
STOP_S = 20
"""Seconds for the service to finish requests in progress before it is killed."""

RESTART_S = 5
LABEL_PREFIX = "org.meeseeks."


@dataclass(frozen=True, slots=True)
class ManagedService:
    """How the service is to be run; `name` is its own on this machine."""

    name: str
    command: tuple[str, ...]
    variables: Mapping[str, str]
    folder: Path
    log: Path


class ServiceManager(Protocol):
    """Runs services at each login, and again if they fail."""

    @property
    def title(self) -> str: ...

    def answers(self) -> bool:
        """Return whether it runs for this user."""
        ...

    def file(self, name: str) -> Path:
        """Return the file that defines a service."""
        ...

    def definition(self, service: ManagedService) -> str:
        """Return what the file of a service says."""
        ...

    def install(self, service: ManagedService) -> None:
        """Write the file, so that the service starts at the next login."""
        ...

    def remove(self, name: str) -> None:
        """Delete the file of a service that was stopped, and everything that refers to it."""
        ...

    def start(self, name: str) -> None: ...

    def stop(self, name: str) -> None: ...


def service_managers(home: Path, environ: Mapping[str, str]) -> Iterator[ServiceManager]:
    """Yield the service managers that this machine has."""
    if shutil.which("launchctl"):
        yield Launchd(home, os.getuid())
    if shutil.which("systemctl"):
        config = environ.get("XDG_CONFIG_HOME") or ""
        yield Systemd(Path(config) if Path(config).is_absolute() else home / ".config")


@dataclass(frozen=True, slots=True)
class Systemd:
    """The systemd of the user; `config` is the user's folder for settings."""

    config: Path
    title: str = "systemd"

    def answers(self) -> bool:
        return _called("systemctl", "--user", "show", "--property=Version").returncode == 0

    def file(self, name: str) -> Path:
        return self.config / "systemd" / "user" / _unit(name)

    def definition(self, service: ManagedService) -> str:
        program, *arguments = service.command
        if "$" in program:
            raise SettingsError(f"systemd cannot run {program!r}, because of the dollar sign; use --background")
        command = " ".join([_quoted(program), *(_quoted(word.replace("$", "$$")) for word in arguments)])
        variables = [f"Environment={_quoted(f'{name}={value}')}" for name, value in service.variables.items()]
        lines = [
            "# Written by `meeseeks setup`; `meeseeks setup --uninstall` removes it.",
            "[Unit]",
            "Description=Meeseeks, memory for AI agents",
            "",
            "[Service]",
            f"ExecStart={command}",
            *variables,
            f"WorkingDirectory=-{_specified(service.folder)}",
            f"StandardOutput=append:{_specified(service.log)}",
            f"StandardError=append:{_specified(service.log)}",
            "UMask=0077",
            "Restart=on-failure",
            f"RestartSec={RESTART_S}",
            "# The service stops its own Valkey, after the last request.",
            "KillMode=mixed",
            f"TimeoutStopSec={STOP_S}",
            "",
            "[Install]",
            "WantedBy=default.target",
        ]
        return "\n".join(lines) + "\n"

    def install(self, service: ManagedService) -> None:
        _write(self.file(service.name), self.definition(service))
        try:
            self._call("daemon-reload")
            self._call("enable", _unit(service.name))
        except SettingsError:
            self.remove(service.name)
            raise

    def remove(self, name: str) -> None:
        _called("systemctl", "--user", "disable", _unit(name))
        link = self.file(name).parent / "default.target.wants" / _unit(name)
        with _os_errors(link):
            link.unlink(missing_ok=True)  # if systemd does not answer
            self.file(name).unlink(missing_ok=True)
        _called("systemctl", "--user", "daemon-reload")
        _called("systemctl", "--user", "reset-failed", _unit(name))

    def start(self, name: str) -> None:
        self._call("start", _unit(name))

    def stop(self, name: str) -> None:
        self._call("stop", _unit(name))

    def _call(self, *words: str) -> None:
        _succeeded(_called("systemctl", "--user", *words), "systemctl --user " + " ".join(words))


@dataclass(frozen=True, slots=True)
class Launchd:
    """The launchd of the user on macOS, who need not be at the screen."""

    home: Path
    uid: int
    title: str = "launchd"

    def answers(self) -> bool:
        return self._domain() is not None

    def file(self, name: str) -> Path:
        return self.home / "Library" / "LaunchAgents" / f"{LABEL_PREFIX}{name}.plist"

    def definition(self, service: ManagedService) -> str:
        values = {
            "Label": LABEL_PREFIX + service.name,
            "ProgramArguments": list(service.command),
            "EnvironmentVariables": dict(service.variables),
            "WorkingDirectory": str(service.folder),
            "StandardOutPath": str(service.log),
            "StandardErrorPath": str(service.log),
            "Umask": 0o077,
            "RunAtLoad": True,
            "KeepAlive": {"SuccessfulExit": False},
            "ThrottleInterval": RESTART_S,
            "ExitTimeOut": STOP_S,
        }
        try:
            return plistlib.dumps(values, sort_keys=False).decode()
        except ValueError as error:
            raise SettingsError("launchd cannot be told of names with control characters; use --background") from error

    def install(self, service: ManagedService) -> None:
        _write(self.file(service.name), self.definition(service))
        _called("launchctl", "enable", self._target(service.name))

    def remove(self, name: str) -> None:
        self.stop(name)
        with _os_errors(self.file(name)):
            self.file(name).unlink(missing_ok=True)

    def start(self, name: str) -> None:
        if self._is_loaded(name):
            words = ["kickstart", self._target(name)]
        else:
            words = ["bootstrap", self._domain() or self._domains()[0], str(self.file(name))]
        _succeeded(_called("launchctl", *words), "launchctl " + " ".join(words))

    def stop(self, name: str) -> None:
        """Unload the service until the next login; one that takes a while to end is no error."""
        _called("launchctl", "bootout", self._target(name))

    def _is_loaded(self, name: str) -> bool:
        return _called("launchctl", "print", self._target(name)).returncode == 0

    def _target(self, name: str) -> str:
        return f"{self._domain() or self._domains()[0]}/{LABEL_PREFIX}{name}"

    def _domain(self) -> str | None:
        return next((one for one in self._domains() if _called("launchctl", "print", one).returncode == 0), None)

    def _domains(self) -> tuple[str, str]:
        return f"gui/{self.uid}", f"user/{self.uid}"


def _unit(name: str) -> str:
    return f"{name}.service"


def _quoted(word: str) -> str:
    """Return a word as systemd reads it back."""
    return '"' + _specified(word).replace("\\", "\\\\").replace('"', '\\"') + '"'


def _specified(value: str | Path) -> str:
    """Return a value in which systemd finds no specifiers."""
    if not str(value).isprintable():
        raise SettingsError(f"systemd cannot be told of {str(value)!r}; rename it, or use --background")
    return str(value).replace("%", "%%")


def _called(*words: str) -> "subprocess.CompletedProcess[str]":
    """Run a program to its end; one that does not end counts as failed."""
    try:
        return subprocess.run(  # noqa: S603 - the words are ours
            words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=CALL_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return subprocess.CompletedProcess(words, 1, "", str(error))


def _succeeded(done: "subprocess.CompletedProcess[str]", command: str) -> None:
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip() or f"exit code {done.returncode}"
        raise SettingsError(f"`{command}` failed: {said}; to do without, use `meeseeks setup --background`")


def _write(path: Path, text: str) -> None:
    with _os_errors(path):
        write_atomically(path, text)


@contextmanager
def _os_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror or error}") from error
