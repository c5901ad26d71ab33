"""Settings in force: layers and their origins, changes, refusals, and what is left out."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from worker.domain.errors import QueueError, SettingsError
from worker.settings.injection import Settings
from worker.settings.live import LiveSettings
from worker.settings.saved import SavedSettings

FILE = """\
[memory_injection]
max_total = 8
max_items = 4

[[agents]]
id = "courier"
enabled = false
"""


class Overrides:
    """A store in memory with the same rules as the one in Redis; `before_write` may interfere."""

    def __init__(self) -> None:
        self.saved = SavedSettings()
        self.before_write: Callable[[], None] = lambda: None

    async def read(self, known: int) -> SavedSettings | None:
        return None if self.saved.version == known else self.saved

    async def write(self, expected: int, saved: SavedSettings) -> bool:
        self.before_write()
        if self.saved.version != expected:
            return False
        self.saved = saved
        return True


class SlowOverrides(Overrides):
    """Lets others go on whenever it is asked."""

    async def read(self, known: int) -> SavedSettings | None:
        await asyncio.sleep(0)
        return await super().read(known)

    async def write(self, expected: int, saved: SavedSettings) -> bool:
        await asyncio.sleep(0)
        return await super().write(expected, saved)


async def test_many_changes_at_once_are_all_saved(file: Path) -> None:
    live = LiveSettings(Settings.load({}, file), SlowOverrides())
    await asyncio.gather(*(live.patch(f"agent-{number}", {"max_items": number}) for number in range(1, 21)))
    assert [live.for_agent(f"agent-{number}").max_items for number in range(1, 21)] == list(range(1, 21))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "meeseeks.toml"
    path.write_text(FILE, encoding="utf-8")
    return path


@pytest.fixture
def store() -> Overrides:
    return Overrides()


@pytest.fixture
def live(file: Path, store: Overrides) -> LiveSettings:
    return LiveSettings(Settings.load({}, file), store)


def origins(live: LiveSettings, agent: str | None = None) -> dict[str, tuple[Any, str]]:
    values = live.view(agent)["memory_injection"]
    return {key: (entry["value"], entry["origin"]) for key, entry in values.items()}


async def test_every_value_tells_where_it_comes_from(live: LiveSettings, file: Path) -> None:
    await live.patch(None, {"max_items": 3, "max_chars": 1000})
    await live.patch("courier", {"max_chars": 900})
    seen = origins(live, "courier")
    assert seen["search_limit"] == (30, "default")
    assert seen["max_total"] == (8, "file")
    assert seen["max_items"] == (3, "override")
    assert seen["enabled"] == (False, "agent file")
    assert seen["max_chars"] == (900, "agent override")
    values = live.view("courier")["memory_injection"]
    assert (values["max_total"]["at"], values["enabled"]["at"]) == (f"{file}:2", f"{file}:7")
    assert origins(live)["max_chars"] == (1000, "override")
    assert live.for_agent("courier").max_chars == 900
    assert live.for_agent("other").max_chars == 1000


async def test_what_is_said_for_one_agent_goes_before_what_is_saved_for_all(live: LiveSettings) -> None:
    await live.patch(None, {"enabled": True})
    assert not live.for_agent("courier").enabled
    await live.patch("courier", {"enabled": True})
    assert live.for_agent("courier").enabled


async def test_overrides_are_taken_back_key_by_key_or_all_at_once(live: LiveSettings, store: Overrides) -> None:
    await live.patch("courier", {"enabled": True, "max_total": 1})
    await live.patch("courier", {}, ["enabled"])
    assert (live.for_agent("courier").enabled, live.for_agent("courier").max_total) == (False, 1)
    await live.patch(None, {"max_total": 2})
    await live.reset("courier")
    assert live.for_agent("courier").max_total == 2
    await live.reset(None)
    assert live.for_agent("courier").max_total == 8
    assert (store.saved.version, store.saved.general, store.saved.agents) == (5, {}, {})


async def test_a_key_of_the_service_is_not_saved_but_explained(live: LiveSettings) -> None:
    for save in (live.patch, live.replace):
        with pytest.raises(SettingsError, match=r"http_port: is a key of \[service\]; write it into the settings file"):
            await save(None, {"http_port": 9000})


async def test_values_replace_what_was_saved_in_one_step(live: LiveSettings) -> None:
    await live.patch("scout", {"max_items": 3, "max_chars": 900})
    assert await live.replace("scout", {"max_items": 2}) == []
    seen = origins(live, "scout")
    assert (seen["max_items"], seen["max_chars"][1]) == ((2, "agent override"), "default")
    await live.replace("scout", {})
    assert not live.view("scout")["memory_injection_overridden"]


async def test_agents_with_values_of_their_own_are_marked(live: LiveSettings) -> None:
    await live.patch("scout", {"max_items": 1})
    assert live.view("scout")["memory_injection_overridden"]
    assert live.view("courier")["memory_injection_overridden"]
    assert not live.view("other")["memory_injection_overridden"]
    assert set(live.view()["agents"]) == {"courier", "scout"}
    await live.reset("scout")
    assert not live.view("scout")["memory_injection_overridden"]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"max_total": -1}, r"memory_injection\.max_total: must be between 1 and 100"),
        ({"max_items": 2, "max_chars": "many"}, r"memory_injection\.max_chars: must be a whole number"),
        ({"max_totl": 1}, r"memory_injection\.max_totl: unknown key; did you mean max_total\?"),
    ],
)
async def test_a_value_that_does_not_hold_changes_nothing(
    live: LiveSettings, store: Overrides, values: dict[str, Any], message: str
) -> None:
    await live.patch(None, {"max_total": 5})
    before = live.for_agent("any")
    for _ in range(2):
        with pytest.raises(SettingsError, match=message):
            await live.patch(None, values)
    assert live.for_agent("any") == before
    assert store.saved.version == 1


async def test_unknown_keys_cannot_be_unset(live: LiveSettings) -> None:
    with pytest.raises(SettingsError, match=r"agents\.a\.max_totl: unknown key; did you mean max_total\?"):
        await live.patch("a", {}, ["max_totl"])


async def test_values_are_saved_in_their_plain_form(live: LiveSettings, store: Overrides) -> None:
    await live.patch(None, {"max_total": "7", "mode": "escalate"})
    assert store.saved.general == {"max_total": 7, "mode": "escalate"}


async def test_without_a_store_nothing_can_be_saved(file: Path) -> None:
    live = LiveSettings(Settings.load({}, file))
    await live.refresh()
    with pytest.raises(SettingsError, match="edit the settings file"):
        await live.patch(None, {"max_total": 5})


async def test_changes_of_others_are_taken_over(live: LiveSettings, file: Path, store: Overrides) -> None:
    other = LiveSettings(Settings.load({}, file), store)
    await other.patch(None, {"max_total": 2})
    assert live.for_agent("any").max_total == 8
    await live.refresh()
    assert live.for_agent("any").max_total == 2
    assert live.for_agent("any").version == other.for_agent("any").version


async def test_changes_at_the_same_time_lose_nothing(live: LiveSettings, file: Path, store: Overrides) -> None:
    def interfere() -> None:
        store.before_write = lambda: None
        store.saved = SavedSettings(1, {"max_items": 1})

    store.before_write = interfere
    await live.patch(None, {"max_total": 2})
    assert (store.saved.version, store.saved.general) == (2, {"max_items": 1, "max_total": 2})


async def test_a_store_that_always_changes_ends_in_an_error(live: LiveSettings, store: Overrides) -> None:
    def interfere() -> None:
        store.saved = SavedSettings(store.saved.version + 1)

    store.before_write = interfere
    with pytest.raises(QueueError, match="try again"):
        await live.patch(None, {"max_total": 2})


async def test_a_store_that_has_forgotten_is_given_back_what_was_saved(live: LiveSettings, store: Overrides) -> None:
    await live.patch(None, {"max_total": 2})
    await live.patch("courier", {"max_total": 1})
    kept, store.saved = store.saved, SavedSettings(1, {"max_total": 2})
    await live.refresh()
    assert store.saved == kept
    assert live.for_agent("courier").max_total == 1


async def test_saved_values_of_another_version_are_left_out_and_kept(live: LiveSettings, store: Overrides) -> None:
    store.saved = SavedSettings(7, {"max_total": 2, "from_the_future": 1, "max_items": 0})
    await live.refresh()
    assert (live.for_agent("any").max_total, live.for_agent("any").max_items) == (2, 4)
    assert live.saved_in_force == {"max_total": 2}
    told = live.status()["faults"]["saved"]
    assert "memory_injection.from_the_future: unknown key" in told
    assert "memory_injection.max_items: must be" in told
    await live.patch(None, {"max_chars": 1000})
    assert store.saved.general == {"max_total": 2, "from_the_future": 1, "max_items": 0, "max_chars": 1000}
    await live.patch(None, {"max_items": 2}, ["from_the_future"])
    assert "saved" not in live.status()["faults"]


async def test_a_changed_file_is_taken_over_and_a_bad_one_is_not(live: LiveSettings, file: Path) -> None:
    await live.patch(None, {"max_items": 3})
    file.write_text(FILE.replace("max_total = 8", "max_total = 6"), encoding="utf-8")
    await live.reload()
    assert (live.for_agent("any").max_total, live.for_agent("any").max_items) == (6, 3)
    file.write_text("[memory_injection]\nmax_total = 0\n", encoding="utf-8")
    await live.reload()
    assert live.for_agent("any").max_total == 6
    assert live.status()["faults"]["file"].startswith(f"{file}:2: memory_injection.max_total: ")
    file.unlink()
    await live.reload()
    assert live.for_agent("any").max_total == 6
    assert "no settings file" in live.status()["faults"]["file"]
    file.write_text("[memory_injection]\nmax_total = 5\n", encoding="utf-8")
    await live.reload()
    assert live.for_agent("any").max_total == 5
    assert live.for_agent("courier").enabled
    assert live.status()["faults"] == {}


async def test_a_changed_service_setting_waits_for_a_restart(live: LiveSettings, file: Path) -> None:
    file.write_text("[service]\nmax_jobs = 3\n" + FILE, encoding="utf-8")
    await live.reload()
    assert live.status()["needs_restart"] == ["service.max_jobs"]
    assert live.view()["service"]["max_jobs"]["value"] == 20
    file.write_text(FILE, encoding="utf-8")
    await live.reload()
    assert live.status()["needs_restart"] == []


async def test_a_snapshot_is_not_touched_by_later_changes(live: LiveSettings) -> None:
    before = live.for_agent("any")
    await live.patch(None, {"max_total": 2})
    assert before.max_total == 8


def test_secrets_are_not_shown(tmp_path: Path) -> None:
    environ = {"MEESEEKS_MODEL_API_KEY": "sesame", "MEESEEKS_REDIS_URL": "redis://me:sesame@host:1"}
    service = LiveSettings(Settings.load(environ)).view()["service"]
    assert "sesame" not in str(service)
    assert service["redis_url"]["value"] == "redis://***@host:1"
    assert (service["model_api_key"]["origin"], service["model_api_key"]["at"]) == (
        "variable",
        "MEESEEKS_MODEL_API_KEY",
    )


async def test_types_that_do_not_exist_are_left_out_of_what_is_saved(live: LiveSettings, store: Overrides) -> None:
    dropped = await live.patch("scout", {"pinned_types": ["goal", "todos"]})
    told = "agents.scout.pinned_types: ignoring unknown memory type 'todos'; did you mean todo?"
    assert dropped == [told]
    assert store.saved.agents == {"scout": {"pinned_types": ["goal"]}}


async def test_warnings_of_a_file_are_shown_as_long_as_they_hold(live: LiveSettings, file: Path) -> None:
    file.write_text(FILE.replace("max_items = 4", 'pinned_types = ["todos"]'), encoding="utf-8")
    await live.reload()
    assert len(live.status()["warnings"]) == 1
    assert f"{file}:3: memory_injection.pinned_types" in live.status()["warnings"][0]
    file.write_text(FILE, encoding="utf-8")
    await live.reload()
    assert live.status()["warnings"] == []
