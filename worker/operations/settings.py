"""Handlers for saved settings and their history."""

from contextlib import suppress

from worker.domain.deadline import Deadline
from worker.domain.errors import QueueError
from worker.domain.operation import AnyHandler
from worker.settings.live import LiveSettings
from worker.settings.saved import SavedChange, SavedSettings, why_not_undoable

from .registry import SETTINGS_GET, SETTINGS_HISTORY, SETTINGS_PATCH, SETTINGS_RESET, SETTINGS_UNDO
from .requests import (
    SettingsHistoryRequest,
    SettingsPatchRequest,
    SettingsRequest,
    SettingsResetRequest,
    SettingsUndoRequest,
)
from .results import SettingsHistoryEntry, SettingsHistoryResult, SettingsResult


class SettingsOperations:
    def __init__(self, settings: LiveSettings) -> None:
        self._settings = settings

    def handlers(self) -> tuple[AnyHandler, ...]:
        return (
            SETTINGS_GET.bind(self.get),
            SETTINGS_PATCH.bind(self.patch),
            SETTINGS_RESET.bind(self.reset),
            SETTINGS_HISTORY.bind(self.history),
            SETTINGS_UNDO.bind(self.undo),
        )

    async def get(self, request: SettingsRequest, deadline: Deadline) -> SettingsResult:
        with suppress(QueueError):  # then those last read are in force, and the watcher reports the error
            await self._settings.refresh()
        return SettingsResult.model_validate(self._settings.view(request.agent_id))

    async def patch(self, request: SettingsPatchRequest, deadline: Deadline) -> SettingsResult:
        agent, values, version, author = request.agent_id, request.values, request.version, request.author
        if request.reset_memory_injection_override:
            dropped = await self._settings.replace(agent, values, version, author)
        else:
            dropped = await self._settings.patch(agent, values, request.unset, version, author)
        return SettingsResult.model_validate({**self._settings.view(agent), "dropped": dropped})

    async def reset(self, request: SettingsResetRequest, deadline: Deadline) -> SettingsResult:
        await self._settings.reset(request.agent_id, request.version, request.author)
        return SettingsResult.model_validate(self._settings.view(request.agent_id))

    async def history(self, request: SettingsHistoryRequest, deadline: Deadline) -> SettingsHistoryResult:
        await self._settings.refresh()
        saved = self._settings.saved
        found = [change for change in reversed(saved.history) if _is_asked(change, request)]
        shown = found[: request.limit]
        return SettingsHistoryResult(
            changes=[_entry(saved, change) for change in shown],
            cursor=shown[-1].version if len(found) > len(shown) else None,
        )

    async def undo(self, request: SettingsUndoRequest, deadline: Deadline) -> SettingsResult:
        agent = await self._settings.undo(request.change, request.author)
        return SettingsResult.model_validate(self._settings.view(agent))


def _is_asked(change: SavedChange, request: SettingsHistoryRequest) -> bool:
    return (
        (request.agent_id is None or change.agent_id == request.agent_id)
        and not (request.shared and change.agent_id is not None)
        and (request.key is None or any(one.key == request.key for one in change.keys))
        and (request.before is None or change.version < request.before)
    )


def _entry(saved: SavedSettings, change: SavedChange) -> SettingsHistoryEntry:
    undone_by = next((one.version for one in saved.history if one.undoes == change.version), None)
    return SettingsHistoryEntry(
        **change.model_dump(), undone_by=undone_by, not_undoable=why_not_undoable(saved, change)
    )
