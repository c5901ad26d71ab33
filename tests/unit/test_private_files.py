"""Files and folders that the service makes are for their owner only, and changes of them exclude each other."""

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from hooks.private_files import make_private_folder, private_file
from worker.domain.errors import SettingsError
from worker.settings.atomic_file import replacing, write_atomically
from worker.settings.fitted import read_table, update_table


@pytest.fixture(autouse=True)
def _open_umask() -> Iterator[None]:
    former = os.umask(0)
    yield
    os.umask(former)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_missing_folders_are_private_and_existing_ones_stay_as_they_are(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    make_private_folder(tmp_path / "a" / "b")
    make_private_folder(tmp_path / "a" / "b")
    assert [mode(path) for path in (tmp_path, tmp_path / "a", tmp_path / "a" / "b")] == [0o755, 0o700, 0o700]


def test_files_are_private(tmp_path: Path) -> None:
    os.close(private_file(tmp_path / "one"))
    write_atomically(tmp_path / "folder" / "two", "text")
    assert [mode(path) for path in (tmp_path / "one", tmp_path / "folder", tmp_path / "folder" / "two")] == [
        0o600,
        0o700,
        0o600,
    ]


def test_a_block_that_fails_leaves_the_file_and_no_draft(tmp_path: Path) -> None:
    write_atomically(tmp_path / "file", "before")
    with pytest.raises(TypeError), replacing(tmp_path / "file") as draft:
        draft.writelines([b"half", cast("bytes", "no bytes")])
    assert (tmp_path / "file").read_text() == "before"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_parallel_changes_of_fitted_values_lose_none(tmp_path: Path) -> None:
    path = tmp_path / "fitted.json"

    def add(name: str) -> None:
        for number in range(20):
            update_table(path, "meeseeks eval calibrate", lambda table: table | {f"{name}{number}": number})  # noqa: B023

    threads = [threading.Thread(target=add, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(read_table(path, "meeseeks eval calibrate")) == 80


def test_a_damaged_table_is_replaced_and_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    path = tmp_path / "fitted.json"
    path.write_text("{torn", encoding="utf-8")
    update_table(path, "meeseeks eval calibrate", lambda table: table | {"a": 1})
    assert read_table(path, "meeseeks eval calibrate") == {"a": 1}
    (tmp_path / "file").touch()
    with pytest.raises(SettingsError, match="cannot be written"):
        update_table(tmp_path / "file" / "fitted.json", "meeseeks eval calibrate", lambda table: table)
