"""The registry of automations."""

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from hooks.automations import (
    Automation,
    AutomationMissing,
    AutomationRejected,
    AutomationStatus,
    HookPoint,
    Kind,
    Lifetime,
    Registry,
    RegistryUnavailable,
    default_registry_path,
)

SEED = """
INSERT INTO automations (
  name, hook_point, mode, status, blocking, script_path,
  workspace_dir, timeout_ms
) VALUES (
  'memory-injection',
  'worker:pre_execution',
  'persistent',
  'active',
  1,
  '~/.nexus/state/hooks/scripts/memory-injection.ts',
  '~/.nexus/state/meeseeks/memory-injection/',
  3000
);
"""
PRE, POST = HookPoint.PRE_EXECUTION, HookPoint.POST_EXECUTION


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    return Registry(tmp_path / "data" / "automations.db")


def names(registry: Registry, point: str = PRE) -> list[str]:
    return [automation.name for automation in registry.active(point)]


def test_memory_injection_is_registered_by_default(registry: Registry) -> None:
    (only,) = registry.all()
    assert (only.name, only.hook_point, only.mode, only.status) == (
        "memory-injection",
        PRE,
        Lifetime.PERSISTENT,
        AutomationStatus.ACTIVE,
    )
    assert (only.kind, only.blocking, only.timeout_ms) == (Kind.PYTHON, True, 3000)
    assert only.created_at is not None


def test_changes_to_memory_injection_persist(registry: Registry) -> None:
    assert registry.set_status("memory-injection", AutomationStatus.DISABLED).status is AutomationStatus.DISABLED
    again = Registry(registry.path)
    assert names(again) == []
    assert again.get("memory-injection").status is AutomationStatus.DISABLED
    again.set_status("memory-injection", AutomationStatus.ACTIVE)
    assert names(registry) == ["memory-injection"]
    registry.remove("memory-injection")
    assert Registry(registry.path).all() == ()


@pytest.mark.parametrize("removed", [False, True])
def test_the_documented_registration_works(registry: Registry, removed: bool) -> None:
    registry.remove("memory-injection") if removed else registry.all()
    with sqlite3.connect(registry.path) as connection:
        connection.execute(SEED)
    connection.close()
    (automation,) = registry.active(PRE)
    assert automation.kind is Kind.SCRIPT
    assert automation.script == Path.home() / ".nexus/state/hooks/scripts/memory-injection.ts"
    assert automation.workspace == Path.home() / ".nexus/state/meeseeks/memory-injection"
    with sqlite3.connect(registry.path) as connection, pytest.raises(sqlite3.IntegrityError):
        connection.execute(SEED)
    connection.close()
    assert registry.all() == (automation,), "only the default is replaced"


def test_automations_run_by_position_and_then_by_age(registry: Registry) -> None:
    for name, position in (("third", 100), ("fourth", 100), ("first", 1), ("elsewhere", 0)):
        point = POST if name == "elsewhere" else PRE
        registry.add(Automation(name, "/bin/true", point, position=position))
    registry.add(Automation("off", "/bin/true", status=AutomationStatus.DISABLED))
    assert names(registry) == ["first", "memory-injection", "third", "fourth"]
    assert names(registry, POST) == ["elsewhere"]
    assert registry.all()[0].name == "elsewhere"


def test_every_field_is_stored(registry: Registry) -> None:
    given = Automation(
        "mine.v2_x", "~/bin/x", POST, Lifetime.EPHEMERAL, AutomationStatus.DISABLED, False, Kind.SCRIPT, "~/w", 1, 5
    )
    stored = registry.add(given)
    assert stored.created_at == stored.updated_at is not None
    assert replace(stored, created_at=None, updated_at=None) == given


@pytest.mark.parametrize(
    ("automation", "words"),
    [
        (Automation("", "/x"), "invalid name"),
        (Automation("a/b", "/x"), "invalid name"),
        (Automation("-x", "/x"), "invalid name"),
        (Automation("x" * 101, "/x"), "invalid name"),
        (Automation("x", "/x", "worker:someday"), "worker:pre_execution or worker:post_execution"),
        (Automation("x", "/x", timeout_ms=0), "1 to 60000 ms"),
        (Automation("x", "/x", timeout_ms=60_001), "1 to 60000 ms"),
        (Automation("x", "no entry", kind=Kind.PYTHON), "module:name"),
        (Automation("memory-injection", "/x"), "already"),
    ],
)
def test_invalid_automations_are_rejected(registry: Registry, automation: Automation, words: str) -> None:
    with pytest.raises(AutomationRejected, match=words):
        registry.add(automation)
    assert len(registry.all()) == 1


def test_an_unknown_name_is_reported(registry: Registry) -> None:
    for act in (registry.get, registry.remove, lambda name: registry.set_status(name, AutomationStatus.ACTIVE)):
        with pytest.raises(AutomationMissing, match="automations list"):
            act("nobody")


def test_the_file_is_private(registry: Registry) -> None:
    registry.all()
    assert registry.path.stat().st_mode & 0o777 == 0o600
    assert registry.path.parent.stat().st_mode & 0o777 == 0o700
    registry.path.chmod(0o620)
    with pytest.raises(RegistryUnavailable, match="chmod go-w"):
        registry.all()


@pytest.mark.parametrize("content", [b"this is no database" * 100, b"SQLite format 3\0 and then nothing that is one"])
def test_a_file_that_is_not_a_registry_is_reported(registry: Registry, content: bytes) -> None:
    registry.path.parent.mkdir()
    registry.path.write_bytes(content)
    registry.path.chmod(0o600)
    with pytest.raises(RegistryUnavailable, match=r"automations\.db cannot be used"):
        registry.all()
    assert registry.path.read_bytes() == content


def test_a_registry_of_a_newer_version_is_not_changed(registry: Registry) -> None:
    registry.all()
    with sqlite3.connect(registry.path) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(RegistryUnavailable, match="newer version"):
        registry.all()


def test_a_folder_that_cannot_be_created_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RegistryUnavailable):
        Registry(tmp_path / "file" / "automations.db").all()


def test_writes_wait_for_each_other_and_reads_never_wait(registry: Registry) -> None:
    registry.all()
    holder = sqlite3.connect(registry.path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    holder.execute("DELETE FROM automations")
    assert names(registry) == ["memory-injection"]
    with ThreadPoolExecutor(1) as pool:
        change = pool.submit(registry.add, Automation("x", "/bin/true"))
        assert not change.done()
        holder.execute("ROLLBACK")
        assert change.result(5).name == "x"
    holder.close()


def test_many_threads_can_create_it_at_once(registry: Registry) -> None:
    with ThreadPoolExecutor(16) as pool:
        assert {len(found) for found in pool.map(lambda _: registry.all(), range(64))} == {1}


def test_it_is_in_the_data_folder() -> None:
    assert default_registry_path({"MEESEEKS_DATA_DIR": "/data"}) == Path("/data/automations.db")
    assert default_registry_path({"XDG_DATA_HOME": "/x/"}) == Path("/x/meeseeks/automations.db")
    assert default_registry_path({}) == Path("~/.local/share/meeseeks/automations.db").expanduser()
