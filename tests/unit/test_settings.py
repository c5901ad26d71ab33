"""Settings: file, environment, overrides, and clear messages."""

from pathlib import Path

import pytest

from hooks.contract import Mode
from hooks.wire import default_redis_url, socket_path, unix_url
from worker.errors import SettingsError
from worker.settings import Settings


def load(tmp_path: Path, text: str, **environ: str) -> Settings:
    file = tmp_path / "meeseeks.toml"
    file.write_text(text, encoding="utf-8")
    return Settings.load(environ, file)


def test_defaults_need_no_file() -> None:
    settings = Settings.load({})
    assert settings.memory_injection.search_limit == 20
    assert settings.for_agent("any") == settings.memory_injection


def test_environment_goes_before_the_file_and_overrides_before_both(tmp_path: Path) -> None:
    text = '[service]\nmodel = "file"\nlanguage = "german"\n'
    assert load(tmp_path, text).service.model == "file"
    assert load(tmp_path, text, MEESEEKS_MODEL="env").service.model == "env"
    file = tmp_path / "meeseeks.toml"
    assert Settings.load({"MEESEEKS_MODEL": "env"}, file, model="said").service.model == "said"


def test_agents_override_single_keys(tmp_path: Path) -> None:
    text = '[memory_injection]\nmax_items = 3\nmode = "escalate"\n[[agents]]\nid = "courier"\nmax_items = 1\n'
    courier = load(tmp_path, text).for_agent("courier")
    assert (courier.max_items, courier.mode) == (1, Mode.ESCALATE)
    assert load(tmp_path, text).for_agent("other").max_items == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[memory_injection]\nsearch_limit = 0\n", "memory_injection.search_limit"),
        ("[memory_injection]\nserch_limit = 5\n", "serch_limit"),
        ('[[agents]]\nid = "a"\nmax_items = "many"\n', "agents.a.max_items"),
        ("[[agents]]\nmax_items = 1\n", "needs an id"),
        ("[inject]\nx = 1\n", "unknown table"),
        ("[memory_injection\n", "line 1"),
    ],
)
def test_wrong_settings_are_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        load(tmp_path, text)


def test_missing_file_is_said() -> None:
    with pytest.raises(SettingsError, match="no settings file at"):
        Settings.load({"MEESEEKS_CONFIG": "/nowhere/meeseeks.toml"})


def test_keys_do_not_show_in_representations(tmp_path: Path) -> None:
    settings = load(tmp_path, "", MEESEEKS_MODEL_API_KEY="sesame", MEESEEKS_QDRANT_API_KEY="sesame")
    assert "sesame" not in repr(settings)


@pytest.mark.parametrize("environ", [{}, {"XDG_DATA_HOME": "/srv/x"}, {"MEESEEKS_DATA_DIR": "/srv/data"}])
def test_hook_and_service_agree_on_the_socket(environ: dict[str, str]) -> None:
    home = Settings.load(environ).service.home
    assert default_redis_url(environ) == unix_url(socket_path(str(home.absolute())))
