"""Hosts: the orchestrators and agents whose native hook events are understood, and answered in their own words.

A further host is one module beside these, and one row here.
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
"""Every host by the name that endpoint, command and settings know it by."""
