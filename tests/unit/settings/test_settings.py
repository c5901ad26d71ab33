"""Settings: file, environment, overrides, and clear messages."""

from pathlib import Path

import pytest

from hooks.contract import Mode
from hooks.protocol.wire import default_redis_url, socket_path, unix_url
from worker.domain.errors import SettingsError
from worker.domain.memory import MemoryType
from worker.settings.injection import InjectionConfig, Settings


def load(tmp_path: Path, text: str, **environ: str) -> Settings:
    file = tmp_path / "meeseeks.toml"
    file.write_text(text, encoding="utf-8")
    return Settings.load(environ, file)


def test_defaults_need_no_file() -> None:
    settings = Settings.load({})
    assert settings.memory_injection.search_limit == 30
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
        ("[memory_injection\n", ":1: not valid TOML"),
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


def fault(tmp_path: Path, text: str, **environ: str) -> str:
    with pytest.raises(SettingsError) as raised:
        load(tmp_path, text, **environ)
    return str(raised.value)


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        (
            "[service]\n\n[memory_injection]\n# limit\nsearch_limit = 0\n",
            5,
            "search_limit: must be between 1 and 200",
        ),
        ("[memory_injection]\nserch_limit = 5\n", 2, "unknown key; did you mean search_limit?"),
        ("[service]\nmax_jbos = 5\n", 2, "service.max_jbos: unknown key; did you mean max_jobs?"),
        (
            '[[agents]]\nid = "a"\n[[agents]]\nid = "b"\nmax_items = "many"\n',
            5,
            "b.max_items: must be a whole number",
        ),
        ('[[agents]]\nid = "a"\n[[agents]]\nid = "a"\n', 4, "two [[agents]] tables have the id 'a'"),
        ('[[agents]]\nid = "a"\n[[agents]]\nmax_items = 1\n', 3, "needs an id"),
        ("\n[memory_injektion]\n", 2, "unknown table memory_injektion; did you mean memory_injection?"),
        ("memory_injection.max_items = 0\n", 1, "memory_injection.max_items: must be between 1 and 50"),
        ("memory_injection = 5\n", 1, "memory_injection must be a table"),
        ('[agents.a]\nid = "a"\n', 0, "agents must be a list of tables with an id"),
    ],
)
def test_faults_name_file_line_and_key(tmp_path: Path, text: str, line: int, message: str) -> None:
    told = fault(tmp_path, text)
    assert told.startswith(f"{tmp_path / 'meeseeks.toml'}:{line}: " if line else f"{tmp_path / 'meeseeks.toml'}")
    assert message in told


def test_every_fault_is_named_at_once_and_none_repeats_a_value(tmp_path: Path) -> None:
    service, injection = '[service]\nmax_jobs = "sesame"\n', "[memory_injection]\nmax_items = 0\n"
    told = fault(tmp_path, service + injection + '[[agents]]\nid = "a"\nmax_chars = "sesame"\n')
    named = ("service.max_jobs", "memory_injection.max_items", "agents.a.max_chars")
    assert [name for name in named if name not in told] == []
    assert "sesame" not in told


def test_a_faulty_variable_or_option_is_named(tmp_path: Path) -> None:
    assert fault(tmp_path, "", MEESEEKS_MAX_JOBS="many").startswith("MEESEEKS_MAX_JOBS: service.max_jobs: ")
    with pytest.raises(SettingsError, match=r"^--max-jobs: service\.max_jobs"):
        Settings.load({}, None, max_jobs=0)


def test_reading_again_uses_the_same_sources(tmp_path: Path) -> None:
    settings = load(tmp_path, "[memory_injection]\nmax_items = 3\n", MEESEEKS_MODEL="env")
    (tmp_path / "meeseeks.toml").write_text("[memory_injection]\nmax_items = 4\n", encoding="utf-8")
    assert settings.reload is not None
    again = settings.reload()
    assert (again.memory_injection.max_items, again.service.model) == (4, "env")
    (tmp_path / "meeseeks.toml").unlink()
    with pytest.raises(SettingsError, match="no settings file"):
        settings.reload()


def test_a_file_that_comes_later_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    settings = Settings.load({})
    assert not settings.file.exists
    settings.file.path.write_text("[memory_injection]\nmax_items = 4\n", encoding="utf-8")
    assert settings.reload is not None
    assert settings.reload().memory_injection.max_items == 4


def test_whoever_looks_for_the_service_needs_no_faultless_file(tmp_path: Path) -> None:
    file = tmp_path / "meeseeks.toml"
    file.write_text('[service]\nredis_url = "redis://x"\n[memory_injection]\nmax_items = 0\n', encoding="utf-8")
    assert Settings.load_service({}, file).service.redis_url == "redis://x"
    file.write_text("[service\n", encoding="utf-8")
    assert Settings.load_service({}, file, redis_url="redis://y").service.redis_url == "redis://y"


def test_versions_name_values() -> None:
    one, two = InjectionConfig(max_items=3), InjectionConfig(max_items=4)
    assert one.version == InjectionConfig(max_items=3).version != two.version
    assert one.model_copy(update={"max_items": 4}).version == two.version


def test_types_that_do_not_exist_are_left_out_with_a_warning_each(tmp_path: Path) -> None:
    text = '[memory_injection]\npinned_types = ["todos", "goal", "x"]\n[[agents]]\nid = "a"\npinned_types = ["gaol"]\n'
    settings = load(tmp_path, text)
    assert settings.memory_injection.pinned_types == (MemoryType.GOAL,)
    assert settings.for_agent("a").pinned_types == ()
    file = tmp_path / "meeseeks.toml"
    assert settings.warnings == (
        f"{file}:2: memory_injection.pinned_types: ignoring unknown memory type 'todos'; did you mean todo?",
        f"{file}:2: memory_injection.pinned_types: ignoring unknown memory type 'x'",
        f"{file}:5: agents.a.pinned_types: ignoring unknown memory type 'gaol'; did you mean goal?",
    )


@pytest.mark.parametrize("value", ['"todo"', "[1]", "5"])
def test_types_that_are_not_a_list_of_names_are_an_error(tmp_path: Path, value: str) -> None:
    assert "memory_injection.pinned_types" in fault(tmp_path, f"[memory_injection]\npinned_types = {value}\n")
