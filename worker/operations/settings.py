"""Handlers for saved settings."""

from worker.domain.deadline import Deadline
from worker.domain.operation import AnyHandler
from worker.settings.live import LiveSettings

from .registry import SETTINGS_GET, SETTINGS_PATCH, SETTINGS_RESET
from .requests import SettingsPatchRequest, SettingsRequest
from .results import SettingsResult


class SettingsOperations:
    def __init__(self, settings: LiveSettings) -> None:
        self._settings = settings

    def handlers(self) -> tuple[AnyHandler, ...]:
        return SETTINGS_GET.bind(self.get), SETTINGS_PATCH.bind(self.patch), SETTINGS_RESET.bind(self.reset)

    async def get(self, request: SettingsRequest, deadline: Deadline) -> SettingsResult:
        return SettingsResult.model_validate(self._settings.view(request.agent_id))

    async def patch(self, request: SettingsPatchRequest, deadline: Deadline) -> SettingsResult:
        if request.reset_memory_injection_override:
            dropped = await self._settings.replace(request.agent_id, request.values, request.version)
        else:
            dropped = await self._settings.patch(request.agent_id, request.values, request.unset, request.version)
        return SettingsResult.model_validate({**self._settings.view(request.agent_id), "dropped": dropped})

    async def reset(self, request: SettingsRequest, deadline: Deadline) -> SettingsResult:
        await self._settings.reset(request.agent_id)
        return await self.get(request, deadline)
