"""Build both distributions from a copy of the checkout and use them in new environments."""

import json
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.wheels import CLEAN, DROPPINGS, Built, InstalledService, build, install, make_environment, run

pytestmark = pytest.mark.timeout(600)

SILENT_PORT = "redis://127.0.0.1:9/0"
"""The discard port; nothing listens there."""

EXPLODING = "raise RuntimeError('this is the host\\'s own package named hooks')\n"
REQUEST = {"session_id": "s", "message": "Where do we deploy?"}
USE_CLIENT = f"""
import asyncio, sys
from meeseeks_hooks import InjectionRequest, Outcome, PreExecutionHook
async def main():
    request = InjectionRequest(session_id="s", message="Where do we deploy?")
    async with PreExecutionHook({SILENT_PORT!r}) as hook:
        result = await hook(request)
    assert result.outcome is Outcome.ERROR, result
    assert result.memory_context is None
    assert result.prefix(request.message) == request.message
    print(result.reason.value)
asyncio.run(main())
assert "hooks" not in sys.modules and "worker" not in sys.modules
"""

SAME_MODULES = """
import hooks, hooks.contract
from meeseeks_hooks import InjectionRequest, PreExecutionHook
import meeseeks_hooks.contract
assert PreExecutionHook is hooks.PreExecutionHook
assert InjectionRequest is meeseeks_hooks.contract.InjectionRequest is hooks.contract.InjectionRequest
print("the same")
"""

RUN_AUTOMATIONS = f"""
import asyncio, os, pathlib
from meeseeks_hooks.automations import AutomationRunner, Registry
os.environ["MEESEEKS_REDIS_URL"] = {SILENT_PORT!r}
async def main():
    async with AutomationRunner(Registry(pathlib.Path("data/automations.db").absolute())) as runner:
        outcome = await runner.run("worker:pre_execution", {{"session_id": "s", "message": "hi"}})
    for run in outcome.runs:
        print(run.name, run.status.value, run.detail)
asyncio.run(main())
"""


def files(wheel: Path) -> set[str]:
    """Return the files of a wheel without its metadata."""
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


def metadata(wheel: Path) -> str:
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return archive.read(name).decode()


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """A folder with another package named `hooks`."""
    (tmp_path / "hooks").mkdir()
    (tmp_path / "hooks/__init__.py").write_text(EXPLODING)
    return tmp_path


def test_the_root_wheel_contains_only_the_packages_and_prompts(built: Built) -> None:
    kept_out = {"hooks/pyproject.toml", "hooks/LICENSE"}
    packages = ("worker/", "hooks/", "meeseeks_hooks/")
    expected = {name for name in built.sources - kept_out if name.startswith(packages)}
    expected |= {"worker/_" + name for name in built.sources if name.startswith("prompts/")}
    relevance_model = [name for name in built.sources if name.startswith("relevance/meeseeks_relevance/")]
    expected |= {name.replace("relevance/meeseeks_relevance", "worker/_relevance") for name in relevance_model}
    assert files(built.root) == expected
    needed = {
        "worker/assets/tokenizer.json",
        "worker/assets/minilm.onnx",
        "worker/assets/NOTICE",
        "worker/py.typed",
        "hooks/py.typed",
    }
    needed |= {"worker/console/templates/base.html", "worker/console/static/vendor/htmx.min.js"}
    assert needed | {"worker/_prompts/triage.md", "worker/_prompts/cases/backend-team/tasks.jsonl"} <= expected


def test_the_relevance_model_is_a_separate_distribution(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    shutil.copytree(ROOT / "relevance", tree, ignore=DROPPINGS)
    wheel = build(tree, tmp_path / "wheel", "--wheel")
    assert files(wheel) == {
        f"meeseeks_relevance/{name}" for name in ("__init__.py", "card.json", "model.npz", "py.typed")
    }
    assert "\nLicense-Expression: Apache-2.0\n" in metadata(wheel)
    python = make_environment(tmp_path / "env")
    install(python, "--no-deps", wheel)
    where = run([python, "-c", "import meeseeks_relevance; print(meeseeks_relevance.__file__)"], tmp_path)
    with zipfile.ZipFile(wheel) as archive:
        assert (Path(where.strip()).parent / "model.npz").read_bytes() == archive.read("meeseeks_relevance/model.npz")


def test_the_client_wheel_contains_the_same_modules_under_its_own_name(built: Built) -> None:
    kept = (".py", ".sql", "/py.typed")
    modules = {name for name in built.sources if name.startswith("hooks/") and name.endswith(kept)}
    assert files(built.client) == {name.replace("hooks/", "meeseeks_hooks/", 1) for name in modules}
    assert {"hooks/__init__.py", "hooks/shim.py", "hooks/contract/injection.py"} <= modules
    assert "hooks/automations/migrations/0001_automations.sql" in modules


def test_no_wheel_runs_code_when_python_starts(built: Built) -> None:
    """A `.pth` file, a customization of the site or a script to install would run, or shadow, without being asked."""
    for wheel in (built.root, built.client):
        with zipfile.ZipFile(wheel) as archive:
            names = archive.namelist()
        assert [name for name in names if name.endswith(".pth") or ".data/" in name] == []
        assert not {Path(name).name for name in names} & {"sitecustomize.py", "usercustomize.py"}
        assert {name.split("/")[0] for name in names if ".dist-info/" not in name} <= {
            "worker",
            "hooks",
            "meeseeks_hooks",
        }


def test_the_client_has_two_dependencies(built: Built) -> None:
    said = [line for line in metadata(built.client).splitlines() if line.startswith("Requires-Dist: ")]
    required = [line for line in said if "extra ==" not in line]
    assert {line.split()[1].partition("<")[0] for line in said if line not in required} == {"httpx"}
    assert sorted(line.split()[1].partition("=")[0].partition("<")[0].partition(">")[0] for line in required) == [
        "arq",
        "pydantic",
    ]


def test_both_have_one_version_and_a_licence(built: Built) -> None:
    for wheel in (built.root, built.client):
        text = metadata(wheel)
        assert "\nLicense-Expression: Apache-2.0\n" in text
        assert "\nLicense-File: LICENSE\n" in text
    assert built.root.name.split("-")[1] == built.client.name.split("-")[1]


def test_the_source_archive_can_be_built(built: Built, tmp_path: Path) -> None:
    with tarfile.open(built.sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    wheel = build(next(tmp_path.iterdir()), tmp_path / "again", "--wheel")
    assert files(wheel) == files(built.root)


def test_the_client_works_with_another_package_named_hooks(client_python: Path, host: Path) -> None:
    with pytest.raises(AssertionError, match="own package named hooks"):
        run([client_python, "-c", "import hooks"], host)
    assert run([client_python, "-c", USE_CLIENT], host).strip() == "queue_unavailable"


def test_the_client_runs_automations_under_its_own_name(client_python: Path, host: Path) -> None:
    assert run([client_python, "-c", RUN_AUTOMATIONS], host).strip() == "memory-injection silent queue_unavailable"


def test_the_client_has_no_heavy_dependencies(client_python: Path, host: Path) -> None:
    listing = run([sys.executable, "-m", "pip", "--python", client_python, "list", "--format", "json"], host)
    names = {entry["name"].lower() for entry in json.loads(listing)}
    assert {"meeseeks-hooks", "arq", "redis", "pydantic"} <= names
    assert len(names) < 20


@pytest.mark.parametrize("command", [["meeseeks-hook"], ["python", "-m", "meeseeks_hooks"]], ids=" ".join)
def test_the_command_is_silent_and_succeeds_without_a_service(
    client_python: Path, host: Path, command: list[str]
) -> None:
    words = [client_python.parent / command[0], *command[1:]]
    environ = {**CLEAN, "MEESEEKS_REDIS_URL": SILENT_PORT}
    done = subprocess.run(
        words, cwd=host, env=environ, input=json.dumps(REQUEST), capture_output=True, text=True, timeout=30, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_service_has_the_client_under_its_own_name(service: InstalledService, tmp_path: Path) -> None:
    assert run([service.python, "-W", "error", "-c", SAME_MODULES], tmp_path).strip() == "the same"


def test_the_service_runs_from_its_wheel(service: InstalledService, tmp_path: Path) -> None:
    python = service.python
    assert "inject" in run([python.parent / "meeseeks", "--help"], tmp_path)
    where = "import worker, worker.triage.prompt_files as p; print(worker.__file__); print(p.default_prompts_dir())"
    module, prompts = run([python, "-c", where], tmp_path).split()
    assert Path(module).is_relative_to(python.parents[1])
    assert Path(prompts) == Path(module).parent / "_prompts"
    assert (Path(prompts) / "triage.md").is_file()


@pytest.mark.parametrize("command", ["meeseeks", "meeseeks-hook"])
def test_every_program_says_its_version(
    built: Built, service: InstalledService, client_python: Path, command: str
) -> None:
    said = f"{command} {built.root.name.split('-')[1]}\n"
    assert run([service.python.parent / command, "--version"], built.root.parent) == said
    if command == "meeseeks-hook":
        assert run([client_python.parent / command, "--version"], built.root.parent) == said
