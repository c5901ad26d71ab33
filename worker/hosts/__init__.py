"""Hosts: translation between the native hook events of agent programs and requests.

To add a host, write a module and add its profile to `HOSTS`.
"""

from collections.abc import Mapping

from worker.domain.errors import NotFound

from . import claude_code, codex, gobby, nexus
from .profile import Announce, Follow, HookCaller, HostProfile, HostRequest, Inject, Start, SubagentKind, SubagentTask

__all__ = [
    "HOSTS",
    "Announce",
    "Follow",
    "HookCaller",
    "HostProfile",
    "HostRequest",
    "Inject",
    "Start",
    "SubagentKind",
    "SubagentTask",
    "profile_of",
]

HOSTS: Mapping[str, HostProfile] = {
    profile.name: profile for profile in (claude_code.PROFILE, codex.PROFILE, nexus.PROFILE, gobby.PROFILE)
}
"""Hosts by name, as used by the endpoint, the command and the settings."""


def profile_of(name: str) -> HostProfile:
    """Return the host of this name. Raise `NotFound` with the known names otherwise."""
    host = HOSTS.get(name)
    if host is None:
        raise NotFound(f"unknown host {name!r}; the hosts are {', '.join(sorted(HOSTS))}")
    return host
