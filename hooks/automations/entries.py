"""Load and call Python entries, `module:name` of a function or a class with callable instances."""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from importlib import import_module
from typing import Any, cast

from .model import Automation, AutomationError, Lifetime
from .threads import Threads

Entry = Callable[[Mapping[str, Any]], Any]
"""Takes the event and returns what a script would print, or `None`. May be asynchronous."""

_OWN_PACKAGE = __name__.rpartition(".automations")[0]


class EntryFailed(AutomationError):
    """An entry cannot be loaded or called; the message contains no data of the event."""


class Entries:
    """Loaded entries. Instances for persistent automations are reused until `aclose`."""

    def __init__(self, threads: Threads) -> None:
        self._threads = threads
        self._kept: dict[tuple[str, str, str | None], Entry] = {}

    async def call(self, automation: Automation, event: Mapping[str, Any]) -> Any:
        """Call the entry and return its result. Imports and synchronous calls run in a thread.

        Raise `EntryFailed`, or what the entry raises.
        """
        key = (automation.name, automation.script_path, automation.updated_at)
        entry = self._kept.get(key)
        if entry is None:
            entry = await self._threads.do(lambda: load(automation.script_path))
            if automation.mode is Lifetime.PERSISTENT:
                entry = self._kept.setdefault(key, entry)
        try:
            return await self._call(entry, event)
        finally:
            if automation.mode is Lifetime.EPHEMERAL:
                await _close(entry)

    async def aclose(self) -> None:
        """Close the reused entries."""
        kept, self._kept = self._kept, {}
        for entry in kept.values():
            await _close(entry)

    async def _call(self, entry: Entry, event: Mapping[str, Any]) -> Any:
        if inspect.iscoroutinefunction(entry) or inspect.iscoroutinefunction(type(entry).__call__):
            try:
                return await entry(event)
            except SystemExit as error:
                raise EntryFailed("it tried to exit the process") from error
        result = await self._threads.do(lambda: entry(event))
        return await result if isinstance(result, Awaitable) else result


def load(name: str) -> Entry:
    """Return a function, or an instance of a class, by name. Blocks. Raise `EntryFailed` on failure."""
    module_name, _, attribute = name.partition(":")
    try:
        found: Any = import_module(module_name, _OWN_PACKAGE)
        for part in attribute.split("."):
            found = getattr(found, part)
        entry = found() if inspect.isclass(found) else found
    except (ImportError, SyntaxError, AttributeError, TypeError, ValueError, OSError) as error:
        raise EntryFailed(f"{name} cannot be loaded: {error}") from error
    if not callable(entry):
        raise EntryFailed(f"{name} is not callable")
    return cast("Entry", entry)


async def _close(entry: Entry) -> None:
    close = getattr(entry, "aclose", None)
    if inspect.iscoroutinefunction(close):
        with suppress(OSError, RuntimeError):
            await close()
