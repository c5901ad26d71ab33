"""Hosts: translation between the native hook events of agent programs and requests.

To add a host, write a module and add its profile to `HOSTS`.
"""

from collections.abc import Mapping

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
]

HOSTS: Mapping[str, HostProfile] = {
    profile.name: profile for profile in (claude_code.PROFILE, codex.PROFILE, nexus.PROFILE, gobby.PROFILE)
}
"""Hosts by name, as used by the endpoint, the command and the settings."""
