"""A project is a repository: the same from subfolders, worktrees, clones and other spellings of its path."""

import os
import subprocess
from pathlib import Path

import pytest

from hooks.protocol.repository import by_path, project_of, remote_identity


def git(folder: Path, *arguments: str) -> None:
    names = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b"}
    command = ["git", "-c", "protocol.file.allow=always", "-C", str(folder), *arguments]
    subprocess.run(command, check=True, capture_output=True, env=os.environ | names)


def repository(folder: Path, remote: str | None = None) -> Path:
    folder.mkdir(parents=True)
    git(folder, "init", "-q")
    git(folder, "commit", "-q", "--allow-empty", "-m", "first")
    if remote:
        git(folder, "remote", "add", "origin", remote)
    return folder


@pytest.mark.parametrize("remote", [None, "git@github.com:acme/Shop.git"])
def test_subfolders_worktrees_and_links_are_the_same_project(tmp_path: Path, remote: str | None) -> None:
    main = repository(tmp_path / "shop", remote)
    inside = main / "packages" / "web"
    inside.mkdir(parents=True)
    git(main, "worktree", "add", "-q", str(tmp_path / "elsewhere" / "fix-1"))
    git(main, "worktree", "add", "-q", str(main / ".claude" / "worktrees" / "fix-2"))
    link = tmp_path / "link"
    link.symlink_to(main)
    worktrees = [tmp_path / "elsewhere" / "fix-1", main / ".claude" / "worktrees" / "fix-2"]
    spellings = [main, inside, *worktrees, link, link / "packages" / "web"]
    found = {project_of(str(path)) for path in spellings} | {
        project_of(f"{main}/"),
        project_of(f"{main}/./packages/.."),
    }
    assert len(found) == 1
    identity, name = found.pop()
    assert name == "shop"
    assert identity == ("github.com/acme/shop" if remote else by_path(str(main))[0])


def test_repositories_of_one_name_are_different_projects(tmp_path: Path) -> None:
    one = repository(tmp_path / "client-a" / "api")
    other = repository(tmp_path / "client-b" / "api")
    assert project_of(str(one))[0] != project_of(str(other))[0]
    assert {project_of(str(one))[1], project_of(str(other))[1]} == {"api"}


def test_clones_of_one_remote_are_one_project(tmp_path: Path) -> None:
    one = repository(tmp_path / "a" / "api", "https://user:secret@GitLab.example.org:8443/team/api.git")
    other = repository(tmp_path / "b" / "api-copy", "ssh://git@gitlab.example.org:22/team/api")
    assert project_of(str(one))[0] == project_of(str(other))[0] == "gitlab.example.org/team/api"


def test_submodules_are_projects_of_their_own(tmp_path: Path) -> None:
    part = repository(tmp_path / "part")
    main = repository(tmp_path / "main")
    git(main, "submodule", "add", "-q", str(part), "vendor/part")
    assert project_of(str(main / "vendor" / "part"))[0] != project_of(str(main))[0]
    assert project_of(str(main / "vendor" / "part"))[1] == "part"


def test_worktrees_of_a_bare_repository_are_one_project(tmp_path: Path) -> None:
    main = repository(tmp_path / "shop")
    git(tmp_path, "clone", "-q", "--bare", str(main), str(tmp_path / "store" / "shop.git"))
    bare = tmp_path / "store" / "shop.git"
    git(bare, "remote", "remove", "origin")
    for name in ("one", "two"):
        git(bare, "worktree", "add", "-q", "-b", name, str(tmp_path / "trees" / name))
    found = {project_of(str(tmp_path / "trees" / name)) for name in ("one", "two")}
    assert len(found) == 1
    assert found.pop()[1] == "shop"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("git@github.com:Acme/Api.git", "github.com/acme/api"),
        ("github.com:acme/api", "github.com/acme/api"),
        ("https://github.com/acme/api/", "github.com/acme/api"),
        ("https://token:x-oauth@github.com/acme/api.git", "github.com/acme/api"),
        ("ssh://git@ssh.github.com:443/acme/api.git", "github.com/acme/api"),
        ("git://[::1]:9418/acme/api", "::1/acme/api"),
        ("https://dev.azure.com/acme/shop/_git/api", "dev.azure.com/acme/shop/api"),
        ("git@ssh.dev.azure.com:v3/acme/shop/api", "dev.azure.com/acme/shop/api"),
        ("", ""),
        ("https://", ""),
        ("not a url", ""),
    ],
)
def test_spellings_of_a_remote(url: str, expected: str) -> None:
    assert remote_identity(url) == expected


def test_spellings_of_a_path_that_cannot_be_read() -> None:
    spellings = [
        "/home/u/shop", "/home/u/shop/", "/home/u//shop/.", "/home/u/shop/.claude/worktrees/fix-1",
        "C:\\Users\\u\\Shop", "c:\\users\\u\\shop\\", "C:/Users/u/shop", "/mnt/c/Users/u/Shop", "/c/Users/u/shop",
        "\\\\?\\C:\\Users\\u\\shop",
    ]  # fmt: skip
    assert {by_path(path)[0] for path in spellings} == {"~u/shop"}
    assert by_path("/home/u/client-a/api")[0] != by_path("/home/u/client-b/api")[0]


@pytest.mark.parametrize("path", ["", "/", "shop", ".", "C:\\", "\0", "relative/shop"])
def test_what_is_no_folder_has_no_project(path: str) -> None:
    assert project_of(path) == ("", "")


@pytest.mark.parametrize("marker", ["", "gitdir:", "gitdir: /nowhere", "\0\xff", "gitdir: .git", "x" * 100_000])
def test_a_broken_marker_falls_back_to_the_path(tmp_path: Path, marker: str) -> None:
    (tmp_path / ".git").write_text(marker, encoding="utf-8")
    assert project_of(str(tmp_path))[0] == by_path(str(tmp_path))[0] or "nowhere" in marker


def test_a_pipe_in_place_of_the_configuration_does_not_block(tmp_path: Path) -> None:
    git_folder = tmp_path / ".git"
    git_folder.mkdir()
    (git_folder / "HEAD").write_text("ref: refs/heads/main\n")
    os.mkfifo(git_folder / "config")
    assert project_of(str(tmp_path))[1] == tmp_path.name
