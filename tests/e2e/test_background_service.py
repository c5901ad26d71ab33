"""The service in the background: started, shown, asked, restarted and stopped, with the real command."""

import json
import stat
from pathlib import Path
from typing import Any

from tests.support.command_line import command_line
from tests.support.stack import command

WORDS = {"MEESEEKS_EMBEDDER": "none", "MEESEEKS_MODEL": "none"}


def run(folder: Path, *arguments: str, exit_code: int = 0) -> dict[str, Any]:
    done = command(folder, *arguments, "--json", variables=WORDS, seconds=90)
    assert done.returncode == exit_code, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def look(folder: Path, *arguments: str, exit_code: int = 0) -> Any:
    """Run a command that neither starts nor stops, in this process: that spares loading it."""
    return command_line(folder).json(*arguments, exit_code=exit_code)


def test_the_service_runs_in_the_background_until_it_is_stopped(tmp_path: Path) -> None:
    assert "meeseeks start" in look(tmp_path, "status", exit_code=1)["error"]
    assert "not running" in look(tmp_path, "stop", exit_code=1)["error"]
    started = run(tmp_path, "start")
    try:
        for again in ("start", "up"):
            assert f"already running (pid {started['pid']})" in look(tmp_path, again, exit_code=1)["error"]
        look(tmp_path, "remember", "The kiln cools for nine hours")
        shown = look(tmp_path, "status")
        assert (shown["pid"], shown["memories"]) == (started["pid"], 1)
        again = run(tmp_path, "restart")
        assert again["pid"] != started["pid"]
        assert again["memories"] == 1
    finally:
        stopped = run(tmp_path, "stop")
    assert stopped["stopped"] == again["pid"]
    look(tmp_path, "status", exit_code=1)
    log = Path(started["log"])
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    assert look(tmp_path, "logs", "-n", "1000")["lines"] == log.read_text(encoding="utf-8").splitlines() != []
    assert "kiln" not in log.read_text(encoding="utf-8")


def test_a_service_that_cannot_start_says_why(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "memories").write_text("not a folder")
    assert "ended at once" in run(tmp_path, "start", exit_code=1)["error"]


def test_workers_on_another_redis_are_not_stopped_from_here(tmp_path: Path) -> None:
    variables = {**WORDS, "MEESEEKS_REDIS_URL": "redis://127.0.0.1:9/0"}
    done = command(tmp_path, "stop", variables=variables)
    assert done.returncode == 1
    assert "redis_url is set" in done.stderr
