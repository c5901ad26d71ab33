"""Operations on saved settings."""

from typing import Any

from pydantic import Field

from hooks.contract import Key, Text
from worker.domain.deadline import Deadline
from worker.domain.memory import DomainModel
from worker.domain.operation import Operation, OperationAnswer
from worker.settings.live import LiveSettings

SETTINGS_GET = "settings_get"


SETTINGS_PATCH = "settings_patch"


SETTINGS_RESET = "settings_reset"


class SettingsPayload(DomainModel):
    """Whose settings: those of one agent, or with `null` those of all agents together."""

    agent_id: Key | None = None


class SettingsPatchPayload(SettingsPayload):
    """Keys of `[memory_injection]`: those to save with their values, and those whose saved value is to go."""

    values: dict[str, Any] = Field(default_factory=dict)
    unset: tuple[Text, ...] = ()


class SettingsOperations:
    """Read and change settings; `None` as an agent stands for all of them together."""

    def __init__(self, settings: LiveSettings) -> None:
        self._settings = settings

    def table(self) -> dict[str, Operation]:
        return {SETTINGS_GET: self.get, SETTINGS_PATCH: self.patch, SETTINGS_RESET: self.reset}

    async def get(self, payload: dict[str, Any], deadline: Deadline) -> OperationAnswer:
        wanted = SettingsPayload.model_validate(payload)
        return OperationAnswer(self._settings.view(wanted.agent_id))

    async def patch(self, payload: dict[str, Any], deadline: Deadline) -> OperationAnswer:
        wanted = SettingsPatchPayload.model_validate(payload)
        dropped = await self._settings.patch(wanted.agent_id, wanted.values, wanted.unset)
        return OperationAnswer({**self._settings.view(wanted.agent_id), "dropped": dropped})

    async def reset(self, payload: dict[str, Any], deadline: Deadline) -> OperationAnswer:
        wanted = SettingsPayload.model_validate(payload)
        await self._settings.reset(wanted.agent_id)
        return OperationAnswer(self._settings.view(wanted.agent_id))
