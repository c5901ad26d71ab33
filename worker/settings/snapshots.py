"""All settings of one moment, merged from the file and saved settings. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import ValidationError

from .file import Layer, Origin, describe_errors, invalid_keys, merged
from .former_keys import current_keys
from .injection import InjectionConfig, Settings
from .saved import SavedSettings

GENERAL = "memory_injection"


@dataclass(frozen=True, slots=True)
class RefusedSettings:
    """A saved value that is invalid and therefore ignored."""

    table: str
    key: str
    text: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All settings at one moment; `refused` lists the values of `saved` that are ignored."""

    settings: Settings
    saved: SavedSettings
    layers: Mapping[str, tuple[Layer, ...]]
    configs: Mapping[str, InjectionConfig]
    refused: tuple[RefusedSettings, ...] = ()

    def for_agent(self, agent_id: str) -> InjectionConfig:
        return self.configs.get(table_of(agent_id)) or self.configs[GENERAL]

    def config_of(self, agent_id: str | None) -> InjectionConfig:
        """Return the values in force for one agent, or for all agents without values of their own."""
        return self.configs[GENERAL] if agent_id is None else self.for_agent(agent_id)

    def layers_of(self, agent_id: str | None) -> tuple[Layer, ...]:
        return self.layers.get(table_of(agent_id), self.layers[GENERAL])

    @property
    def agents(self) -> list[str]:
        """Agents with their own values."""
        named = {name for name, layer in self.settings.file.agents.items() if layer.values}
        return sorted(named | set(self.saved.agents))

    def own_keys(self, agent_id: str) -> list[str]:
        """Return the keys that an agent does not share with all."""
        own = (Origin.AGENT_FILE, Origin.AGENT_SAVED)
        return sorted({key for layer in self.layers_of(agent_id) if layer.origin in own for key in layer.values})


def table_of(agent_id: str | None) -> str:
    """Return the name of an agent's table, or that of all agents."""
    return GENERAL if agent_id is None else f"agents.{agent_id}"


def snapshot(settings: Settings, saved: SavedSettings) -> Snapshot:
    """Merge all settings, ignoring invalid saved values, such as those of another version."""
    refused: list[RefusedSettings] = []
    file, empty = settings.file, Layer(Origin.AGENT_FILE)
    base = (file.memory_injection,)
    general = (*base, _valid_layer(Origin.SAVED, GENERAL, base, saved.general, refused))
    layers: dict[str, tuple[Layer, ...]] = {GENERAL: general}
    for name in sorted({*file.agents, *saved.agents}):
        under = (*general, file.agents.get(name, empty))
        own = _valid_layer(Origin.AGENT_SAVED, table_of(name), under, saved.agents.get(name, {}), refused)
        layers[table_of(name)] = (*under, own)
    try:
        configs = {name: InjectionConfig.model_validate(merged(stack)) for name, stack in layers.items()}
    except ValidationError:
        # the file alone is valid, so a saved value conflicts with one in the file
        everything = RefusedSettings(GENERAL, "", "ignoring saved settings because they conflict with the file")
        return replace(snapshot(settings, SavedSettings()), saved=saved, refused=(everything,))
    return Snapshot(settings, saved, layers, configs, tuple(refused))


def _valid_layer(
    origin: Origin, name: str, under: Sequence[Layer], values: Mapping[str, Any], refused: list[RefusedSettings]
) -> Layer:
    """Return a layer of the saved `values` that are valid on top of `under`; add the others to `refused`."""
    kept = current_keys(values)
    while kept:
        layer = Layer(origin, kept)
        try:
            InjectionConfig.model_validate(merged([*under, layer]))
        except ValidationError as error:
            wrong = invalid_keys(error) & set(kept) or set(kept)
            text = "; ".join(describe_errors(error, InjectionConfig, name, [layer]))
            refused += [RefusedSettings(name, key, text) for key in sorted(wrong)]
            kept = {key: value for key, value in kept.items() if key not in wrong}
        else:
            return layer
    return Layer(origin)
