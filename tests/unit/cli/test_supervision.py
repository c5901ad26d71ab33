"""What a service manager is told of the service."""

from pathlib import Path

import pytest

from worker.cli.common import Common
from worker.cli.supervision import managed_service, secrets_left_out
from worker.settings.injection import Settings, load_settings

HERE = Common(None, {"redis_url": None})


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder without settings, and a home folder of the test's own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("MEESEEKS_DATA_DIR", "XDG_DATA_HOME", "MEESEEKS_CONFIG"):
        monkeypatch.delenv(name, raising=False)


def test_each_data_folder_has_a_service_of_its_own(tmp_path: Path) -> None:
    default, other = load_settings(), load_settings(data_dir="mem")
    assert managed_service(HERE, default).name == "meeseeks"
    assert managed_service(HERE, default).command[-1] == "up"
    named = managed_service(HERE, other)
    assert named.name.startswith("meeseeks-")
    assert named.name != managed_service(HERE, load_settings(data_dir="mem2")).name
    assert named.command[-3:] == ("--data-dir", str(tmp_path / "mem"), "up")


def test_it_runs_with_the_settings_of_the_command_in_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "meeseeks.toml").write_text("[service]\nmax_jobs = 3\n")
    monkeypatch.setenv("MEESEEKS_MODEL", "ollama/tiny")
    monkeypatch.setenv("MEESEEKS_PROMPTS_DIR", "own")
    monkeypatch.setenv("MEESEEKS_USER", "ada")
    told = managed_service(HERE, load_settings())
    assert told.variables == {"MEESEEKS_MODEL": "ollama/tiny", "MEESEEKS_PROMPTS_DIR": str(tmp_path / "own")}
    assert told.command[-3:] == ("--config", str(tmp_path / "meeseeks.toml"), "up")
    assert told.folder == tmp_path


def test_it_sends_traces_where_the_command_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-team=blue")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://me:Gk3s9vQ2xTz7@traces.example")
    settings = load_settings()
    assert managed_service(HERE, settings).variables == {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}
    left_out = ["OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"]
    assert sorted(secrets_left_out(settings)) == left_out


def test_secrets_are_named_and_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEESEEKS_MODEL", "openai/gpt-5")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-0123456789abcdef0123")
    monkeypatch.setenv("MEESEEKS_MODEL_API_KEY", "sk-0123456789abcdef0123")
    monkeypatch.setenv("MEESEEKS_HTTP_TOKEN", "0123456789abcdef")
    monkeypatch.setenv("MEESEEKS_QDRANT_URL", "https://me:Gk3s9vQ2xTz7@store.example")
    settings: Settings = load_settings()
    assert managed_service(HERE, settings).variables == {"MEESEEKS_MODEL": "openai/gpt-5"}
    assert sorted(secrets_left_out(settings)) == [
        "MEESEEKS_HTTP_TOKEN",
        "MEESEEKS_MODEL_API_KEY",
        "MEESEEKS_QDRANT_URL",
        "OPENAI_API_KEY",
    ]
