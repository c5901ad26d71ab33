"""Who changed which saved settings, what may be undone, and changes that are based on an older version."""

import re
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.unit.settings.test_live_settings import Overrides
from worker.domain.errors import NotFound, SettingsConflict, SettingsError
from worker.settings import saved as history_of
from worker.settings.injection import Settings
from worker.settings.live import LiveSettings
from worker.settings.saved import HIDDEN, Author, SavedChange, SavedSettings
from worker.text.masking import holds_secret

NOW = datetime(2026, 3, 4, 9, 12, tzinfo=UTC)
OSCAR, IDA = Author(name="oscar", via="http"), Author(name="ida", via="console")


@pytest.fixture
def store() -> Overrides:
    return Overrides()


@pytest.fixture
def live(store: Overrides) -> LiveSettings:
    return LiveSettings(Settings(), store, holds_secret, lambda: NOW)


def told(change: SavedChange) -> dict[str, tuple[Any, Any]]:
    """Return the old and new value of every key; inherited ones in brackets."""

    def side(value: Any, saved: bool) -> Any:
        return value if saved else (value,)

    return {one.key: (side(one.old.value, one.old.saved), side(one.new.value, one.new.saved)) for one in change.keys}


async def test_every_change_says_who_changed_what_and_when(live: LiveSettings) -> None:
    await live.patch(None, {"max_items": 3}, author=OSCAR)
    await live.patch("scout", {"max_items": "2", "mode": "escalate"}, author=IDA)
    await live.patch("scout", {}, ["mode"], author=OSCAR)
    await live.reset(None, author=IDA)
    changes = live.saved.history
    assert [(one.version, one.agent_id, one.author, one.at) for one in changes] == [
        (1, None, OSCAR, NOW),
        (2, "scout", IDA, NOW),
        (3, "scout", OSCAR, NOW),
        (4, None, IDA, NOW),
    ]
    assert [told(one) for one in changes] == [
        {"max_items": ((5,), 3)},
        {"max_items": ((3,), 2), "mode": (("always",), "escalate")},
        {"mode": ("escalate", ("always",))},
        {"max_items": (3, (5,))},
    ]


async def test_what_changes_nothing_is_no_change(live: LiveSettings) -> None:
    await live.patch(None, {"max_items": 3})
    await live.patch(None, {"max_items": "3"}, ["mode"])
    await live.reset("scout")
    assert (live.saved.version, len(live.saved.history)) == (1, 1)


async def test_a_refused_change_is_not_in_the_history(live: LiveSettings) -> None:
    with pytest.raises(SettingsError):
        await live.patch(None, {"max_items": 0})
    assert live.saved.history == ()


async def test_a_change_is_undone_by_another_change(live: LiveSettings) -> None:
    await live.patch(None, {"max_items": 3, "max_chars": 900}, author=OSCAR)
    await live.replace(None, {"max_items": 2}, author=OSCAR)
    assert await live.undo(2, IDA) is None
    assert live.saved.general == {"max_items": 3, "max_chars": 900}
    undo = live.saved.history[-1]
    assert (undo.version, undo.undoes, undo.author) == (3, 2, IDA)
    assert told(undo) == {"max_items": (2, 3), "max_chars": ((6000,), 900)}
    await live.undo(3)
    assert live.saved.general == {"max_items": 2}


async def test_an_undone_value_of_an_agent_is_inherited_again(live: LiveSettings) -> None:
    await live.patch("scout", {"max_items": 3})
    await live.patch(None, {"max_items": 7})
    assert await live.undo(1) == "scout"
    assert live.for_agent("scout").max_items == 7
    assert "scout" not in live.saved.agents


async def test_a_value_that_has_changed_since_is_not_undone(live: LiveSettings) -> None:
    await live.patch(None, {"max_items": 3, "max_chars": 900}, author=OSCAR)
    await live.patch("scout", {"max_items": 1})
    await live.patch(None, {"max_items": 4}, author=IDA)
    with pytest.raises(SettingsConflict, match="nothing was undone: max_items changed again since: change 3 by ida"):
        await live.undo(1)
    assert live.saved.general == {"max_items": 4, "max_chars": 900}
    await live.undo(3)
    with pytest.raises(SettingsConflict, match="change 3 was undone already, by change 4"):
        await live.undo(3)


async def test_a_value_changed_by_a_program_without_history_is_not_undone(live: LiveSettings, store: Overrides) -> None:
    await live.patch(None, {"max_items": 3})
    store.saved = SavedSettings(2, {"max_items": 4}, {}, store.saved.history)
    with pytest.raises(SettingsConflict, match="max_items has another value by now; set the value you want"):
        await live.undo(1)


async def test_an_unknown_change_is_not_undone(live: LiveSettings) -> None:
    with pytest.raises(NotFound, match="there is no change 7 of the settings"):
        await live.undo(7)


async def test_a_former_value_that_is_invalid_by_now_is_refused(live: LiveSettings, store: Overrides) -> None:
    store.saved = SavedSettings(1, {"max_items": 400})
    await live.refresh()
    await live.patch(None, {"max_items": 3})
    with pytest.raises(SettingsError, match=r"memory_injection\.max_items: must be between"):
        await live.undo(2)


async def test_secrets_are_not_kept_in_the_history(live: LiveSettings, store: Overrides) -> None:
    secret = "sk-proj-Zx81hG5dkQ92mvTnYpLw3RbC7uEaJfSi"
    await live.patch(None, {"models": [f"openai/{secret}"]})
    await live.patch(None, {"models": ["openai/gpt"]})
    assert secret not in str(store.saved.history)
    assert [told(one) for one in store.saved.history] == [
        {"models": (([],), HIDDEN)},
        {"models": (HIDDEN, ["openai/gpt"])},
    ]
    with pytest.raises(SettingsConflict, match="the former value of models holds a secret and was not kept"):
        await live.undo(2)


async def test_a_secret_saved_by_mistake_can_be_undone(live: LiveSettings) -> None:
    await live.patch(None, {"models": ["sk-proj-Zx81hG5dkQ92mvTnYpLw3RbC7uEaJfSi"]})
    await live.undo(1)
    assert live.saved.general == {}


async def test_a_conflict_says_what_others_changed_and_what_to_do(live: LiveSettings) -> None:
    await live.patch(None, {"max_items": 3}, version=0, author=OSCAR)
    await live.patch("scout", {"mode": "off"}, version=1, author=IDA)
    expected = (
        "the saved settings have changed since version 0 (max_items, mode; by ida, oscar); "
        "read them again, then repeat your change with version 2"
    )
    for change in (live.patch(None, {"max_items": 9}, version=0), live.replace(None, {}, 0), live.reset(None, 0)):
        with pytest.raises(SettingsConflict, match=re.escape(expected)):
            await change
    with pytest.raises(SettingsConflict, match="there is no version 9 of the saved settings yet; read them again"):
        await live.reset(None, version=9)


async def test_the_history_is_bounded_by_number_and_size(
    live: LiveSettings, store: Overrides, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_of, "MOST_CHANGES", 3)
    for number in range(1, 6):
        await live.patch(None, {"max_items": number})
    assert [one.version for one in store.saved.history] == [3, 4, 5]
    monkeypatch.setattr(history_of, "MOST_BYTES", 1000)
    await live.patch(None, {"skip_patterns": ["x" * 2000]})
    assert [one.version for one in store.saved.history] == [6]
    await live.patch(None, {"max_items": 9})
    assert [one.version for one in store.saved.history] == [7]
