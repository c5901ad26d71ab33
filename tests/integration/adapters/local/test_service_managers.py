"""systemd and launchd: the files that they read, and the calls, with executables that stand in their place."""

import json
import os
import plistlib
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.service_managers import ScriptedManager
from worker.adapters.local.service_managers import (
    Launchd,
    ManagedService,
    ServiceManager,
    Systemd,
    service_managers,
)
from worker.domain.errors import SettingsError

AWKWARD = "a b%h$HOME\"c'\\d;e"
REPORT = (
    "import json, os, pathlib, signal, sys;"
    "pathlib.Path('report').write_text(json.dumps([sys.argv[1:], os.environ['AWKWARD']]));"
    "print('ran', flush=True);"
    "signal.pause()"
)


def service(folder: Path, *arguments: str) -> ManagedService:
    folder.mkdir(parents=True, exist_ok=True)
    command = (sys.executable, "-c", REPORT, *arguments)
    return ManagedService("meeseeks", command, {"AWKWARD": AWKWARD}, folder, folder / "service.log")


@pytest.fixture(params=["systemctl", "launchctl"])
def scripted(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ScriptedManager:
    """A machine that has only this one, with a home folder of the test's own."""
    found = ScriptedManager(tmp_path, request.param)
    monkeypatch.setenv("PATH", str(found.bin))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return found


def manager(folder: Path) -> ServiceManager:
    (found,) = service_managers(folder / "home", os.environ)
    assert found.answers()
    return found


def test_a_service_is_kept_and_leaves_no_trace(scripted: ScriptedManager, tmp_path: Path) -> None:
    kept, wanted = manager(tmp_path), service(tmp_path / AWKWARD, AWKWARD, "")
    kept.install(wanted)
    assert kept.file("meeseeks").read_text(encoding="utf-8") == kept.definition(wanted)
    assert scripted.running == []
    kept.start("meeseeks")
    try:
        _until(wanted.folder / "report")
        assert json.loads((wanted.folder / "report").read_text(encoding="utf-8")) == [[AWKWARD, ""], AWKWARD]
        assert wanted.log.read_text(encoding="utf-8") == "ran\n"
    finally:
        kept.stop("meeseeks")
    assert scripted.running == []
    kept.remove("meeseeks")
    assert [path for path in (tmp_path / "home").rglob("*") if not path.is_dir()] == []
    kept.stop("meeseeks")
    kept.remove("meeseeks")


def test_a_refusal_is_told_in_the_words_of_the_program(scripted: ScriptedManager, tmp_path: Path) -> None:
    kept = manager(tmp_path)
    scripted.refuse("enable", "bootstrap")
    with pytest.raises(SettingsError, match=r"`\w+ctl .*` failed: Access denied; .*--background"):
        _begin(kept, service(tmp_path / "data"))
    assert isinstance(kept, Launchd) or not kept.file("meeseeks").exists()


def test_one_that_does_not_answer_is_not_asked_for_more(scripted: ScriptedManager, tmp_path: Path) -> None:
    scripted.refuse("show", "print")
    (found,) = service_managers(tmp_path / "home", os.environ)
    assert not found.answers()


def test_a_unit_is_removed_even_if_systemd_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scripted = ScriptedManager(tmp_path, "systemctl")
    monkeypatch.setenv("PATH", str(scripted.bin))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    kept = manager(tmp_path)
    kept.install(service(tmp_path / "data"))
    scripted.refuse("--user")
    kept.remove("meeseeks")
    assert [path for path in (tmp_path / "config").rglob("*") if not path.is_dir()] == []


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
@pytest.mark.parametrize("name", ["data", AWKWARD])
def test_systemd_accepts_the_unit(tmp_path: Path, name: str) -> None:
    kept = Systemd(tmp_path / "config")
    unit = kept.file("meeseeks")
    unit.parent.mkdir(parents=True)
    unit.write_text(kept.definition(service(tmp_path / name, AWKWARD)), encoding="utf-8")
    (tmp_path / "run").mkdir()
    done = subprocess.run(
        ["systemd-analyze", "verify", "--user", "--recursive-errors=no", str(unit)],
        env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path / "run"), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_launchd_reads_what_was_meant(tmp_path: Path) -> None:
    wanted = service(tmp_path / AWKWARD, "<&>", AWKWARD)
    found = plistlib.loads(Launchd(tmp_path, 501).definition(wanted).encode())
    assert tuple(found["ProgramArguments"]) == wanted.command
    assert found["EnvironmentVariables"] == wanted.variables
    assert (found["StandardOutPath"], found["WorkingDirectory"]) == (str(wanted.log), str(wanted.folder))
    assert (found["RunAtLoad"], found["KeepAlive"]) == (True, {"SuccessfulExit": False})


@pytest.mark.parametrize("kept", [Systemd(Path("/nowhere")), Launchd(Path("/nowhere"), 501)], ids=lambda one: one.title)
def test_names_that_cannot_be_written_are_refused(kept: ServiceManager) -> None:
    wanted = ManagedService("meeseeks", ("/bin/true", "a\x01b"), {}, Path("/"), Path("/log"))
    with pytest.raises(SettingsError, match="--background"):
        kept.definition(wanted)


def test_systemd_is_not_given_a_program_that_it_would_misread() -> None:
    with pytest.raises(SettingsError, match="dollar"):
        Systemd(Path("/nowhere")).definition(ManagedService("m", ("/a$b/python",), {}, Path("/"), Path("/log")))


def _begin(kept: ServiceManager, wanted: ManagedService) -> None:
    kept.install(wanted)
    kept.start(wanted.name)


def _until(path: Path) -> None:
    end = time.monotonic() + 20
    while not (path.exists() and path.read_text(encoding="utf-8")):
        assert time.monotonic() < end
        time.sleep(0.02)
