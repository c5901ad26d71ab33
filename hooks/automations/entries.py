"""Entries in Python: `module:name` of a function, or of a class whose objects are called."""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from importlib import import_module
from typing import Any

from .model import Automation, AutomationError, Lifetime
from .threads import Threads

Entry = Callable[[Mapping[str, Any]], Any]
"""Takes the event; brings what a script would print, or nothing; may be asynchronous."""

_OWN_PACKAGE = __name__.rpartition(".automations")[0]


class EntryFailed(AutomationError):
    """An entry cannot be found, or raised; the message says what, and never what it was about."""


class Entries:
    """The entries that have been loaded; objects of persistent automations are made once and kept until `aclose`."""

    def __init__(self, threads: Threads) -> None:
        self._threads = threads
        self._kept: dict[tuple[str, str, str | None], Entry] = {}

    async def call(self, automation: Automation, event: Mapping[str, Any]) -> Any:
        """What the entry brings. Importing it, and calling what is not asynchronous, is done in a thread.

        Raises `EntryFailed`, and whatever the entry raises.
        """
        key = (automation.name, automation.script_path, automation.updated_at)
        entry = self._kept.get(key)
        if entry is None:
            entry = await self._threads.do(lambda: load(automation.script_path))
            if automation.mode is Lifetime.PERSISTENT:
                entry = self._kept.setdefault(key, entry)
        try:
            return await self._called(entry, event)
        finally:
            if automation.mode is Lifetime.EPHEMERAL:
                await _closed(entry)

    async def aclose(self) -> None:
        """Close what has been kept."""
        kept, self._kept = self._kept, {}
        for entry in kept.values():
            await _closed(entry)

    async def _called(self, entry: Entry, event: Mapping[str, Any]) -> Any:
        if inspect.iscoroutinefunction(entry) or inspect.iscoroutinefunction(type(entry).__call__):
            try:
                return await entry(event)
            except SystemExit as error:
                raise EntryFailed("it tried to end the process") from error
        brought = await self._threads.do(lambda: entry(event))
        return await brought if isinstance(brought, Awaitable) else brought


def load(name: str) -> Entry:
    """The function of that name, or an object of the class of that name. Blocks. Raises `EntryFailed`."""
    module_name, _, attribute = name.partition(":")
    try:
        found: Any = import_module(module_name, _OWN_PACKAGE)
        for part in attribute.split("."):
            found = getattr(found, part)
        entry = found() if inspect.isclass(found) else found
    except (ImportError, SyntaxError, AttributeError, TypeError, ValueError, OSError) as error:
        raise EntryFailed(f"{name} cannot be loaded: {error}") from error
    if not callable(entry):
        raise EntryFailed(f"{name} cannot be called")
    called: Entry = entry
    return called


async def _closed(entry: Entry) -> None:
    close = getattr(entry, "aclose", None)
    if inspect.iscoroutinefunction(close):
        with suppress(OSError, RuntimeError):
            await close()
