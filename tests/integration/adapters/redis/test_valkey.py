"""The embedded Valkey: start, failed start, persistence and end of the parent process."""

import os
import signal
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hooks.protocol import wire
from tests.support.queue_worker import ROOT
from tests.support.valkey import sync_redis
from worker.adapters.redis.embedded_valkey import EmbeddedValkey
from worker.domain.errors import QueueError


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "data folder"


def test_it_listens_only_on_a_socket_of_its_user(home: Path) -> None:
    with EmbeddedValkey(home) as server, sync_redis(server.url) as redis:
        assert redis.ping()
        assert redis.config_get("port") == {"port": "0"}
        path = Path(wire.socket_path(str(home)))
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
        assert server.url == wire.default_redis_url({"MEESEEKS_DATA_DIR": str(home)})
        pid = server.pid
    assert pid is not None
    assert not path.exists()
    assert server.pid is None
    server.stop()


def test_data_survives_a_restart_unless_persist_is_off(home: Path) -> None:
    for persist, kept in ((True, b"1"), (False, None)):
        server = EmbeddedValkey(home / str(persist), persist=persist)
        for expected in (None, kept):
            with server, sync_redis(server.url) as redis:
                assert redis.get("key") == expected
                redis.set("key", 1)


def test_a_second_server_for_the_same_folder_is_refused(home: Path) -> None:
    with EmbeddedValkey(home) as first:
        with pytest.raises(QueueError, match="another server listens on"):
            EmbeddedValkey(home).start()
        with pytest.raises(QueueError, match="already running"):
            first.start()
        with sync_redis(first.url) as redis:
            assert redis.ping()


def test_a_stale_socket_is_replaced(home: Path) -> None:
    path = Path(wire.socket_path(str(home)))
    path.parent.mkdir(parents=True, exist_ok=True)
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    with EmbeddedValkey(home) as server, sync_redis(server.url) as redis:
        assert redis.ping()


def test_a_file_at_the_socket_path_is_not_touched(home: Path) -> None:
    path = Path(wire.socket_path(str(home)))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("mine")
    with pytest.raises(QueueError, match="not a socket"):
        EmbeddedValkey(home).start()
    assert path.read_text() == "mine"


def test_a_folder_that_cannot_be_made_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(QueueError, match="cannot start"):
        EmbeddedValkey(tmp_path / "file" / "home").start()


def test_a_failed_start_reports_the_output(home: Path) -> None:
    (home / "valkey").mkdir(parents=True)
    (home / "valkey" / "dump.rdb").write_bytes(b"not a dump at all")
    with pytest.raises(QueueError, match=r"(?s)did not start: .*loading the DB"):
        EmbeddedValkey(home).start()


def test_a_long_path_gets_a_socket_elsewhere_that_clients_find(tmp_path: Path) -> None:
    home = tmp_path / ("long" * 30)
    with EmbeddedValkey(home) as server, sync_redis(server.url) as redis:
        assert redis.ping()
        assert server.url == wire.default_redis_url({"MEESEEKS_DATA_DIR": str(home)})
        folder = Path(wire.socket_path(str(home))).parent
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    folder.chmod(0o777)
    with pytest.raises(QueueError, match="only this user can access"):
        EmbeddedValkey(home).start()
    folder.rmdir()


def test_it_ends_when_its_owner_is_killed(home: Path) -> None:
    script = (
        "import sys, time; from pathlib import Path; from worker.adapters.redis.embedded_valkey import EmbeddedValkey\n"
        "server = EmbeddedValkey(Path(sys.argv[1])); server.start(); print(server.pid, flush=True); time.sleep(60)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(home)], stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT)}
    ) as owner:
        assert owner.stdout is not None
        pid = int(owner.stdout.readline())
        owner.send_signal(signal.SIGKILL)
        owner.wait(5)
    end = time.monotonic() + 5
    while time.monotonic() < end and _runs(pid):
        time.sleep(0.02)
    assert not _runs(pid)


def _runs(pid: int) -> bool:
    """Return whether the process is running and not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
