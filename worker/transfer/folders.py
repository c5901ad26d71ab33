"""Which files of a folder are read. Left out are hidden, ignored, vendored and generated files, and links out of it."""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pathspec import GitIgnoreSpec

MAX_FILES = 10_000
MAX_DEPTH = 32
MAX_IGNORE_BYTES = 100_000

_VENDORED = frozenset(
    {"node_modules", "bower_components", "vendor", "vendored", "third_party", "third-party", "site-packages"}
    | {"venv", "env", "virtualenv", "__pycache__", "dist", "build", "target", "out", "coverage", "pods"}
    | {"fixtures", "__fixtures__", "testdata", "__snapshots__"}
)
_GENERATED = frozenset(
    {"package-lock.json", "npm-shrinkwrap.json", "composer.lock", "package.json", "composer.json", "tsconfig.json"}
    | {"jsconfig.json", "manifest.json", "deno.json", "renovate.json", "angular.json", "fixture.json", "fixtures.json"}
    | {"license.md", "licence.md", "license.txt", "licence.txt", "copying.txt", "code_of_conduct.md", "notice.txt"}
    | {"security.md", "contributing.md", "changelog.md", "changes.md", "requirements.txt", "cmakelists.txt"}
    | {"robots.txt", "pull_request_template.md", "third_party_notices.txt", "third_party_notices.md"}
)


@dataclass
class Folder:
    """The files to read in a folder, and what was left out: paths with reasons, and numbers of files by extension."""

    root: Path
    suffixes: frozenset[str]
    files: list[Path] = field(default_factory=list)
    left_out: list[tuple[str, str]] = field(default_factory=list)
    others: dict[str, int] = field(default_factory=dict)

    def read(self) -> "Folder":
        """Walk the folder, without following links to other folders. Raise `OSError` if it cannot be read."""
        os.listdir(self.root)  # noqa: PTH208 - only to raise for a folder that cannot be read
        for where, folders, files in os.walk(self.root, onerror=self._unreadable):
            here = Path(where)
            rules = self._rules(here)
            folders[:] = [name for name in sorted(folders) if self._enters(here, name, rules)]
            for name in sorted(files):
                if not name.startswith("."):
                    self._consider(here / name, rules)
            if len(self.files) > MAX_FILES:
                self.left_out.append((".", f"only the first {MAX_FILES} files were read; import the others by name"))
                del self.files[MAX_FILES:]
                break
        return self

    def _unreadable(self, error: OSError) -> None:
        self.left_out.append((self._name(Path(error.filename)), error.strerror or "cannot be read"))

    def _enters(self, here: Path, name: str, rules: "Rules") -> bool:
        path = here / name
        if name.startswith("."):
            return False
        if len(path.relative_to(self.root).parts) > MAX_DEPTH:
            reason = f"more than {MAX_DEPTH} folders deep"
        elif path.is_symlink():
            reason = "a link to a folder"
        elif name.lower() in _VENDORED or (path / "pyvenv.cfg").exists():
            reason = "a vendored or generated folder"
        elif _ignored(rules, path, folder=True):
            reason = "ignored by .gitignore"
        else:
            return True
        self.left_out.append((f"{self._name(path)}/", reason))
        return False

    def _consider(self, path: Path, rules: "Rules") -> None:
        suffix = path.suffix.lower()
        if suffix not in self.suffixes:
            self.others[suffix or path.name] = self.others.get(suffix or path.name, 0) + 1
        elif reason := self._against(path, rules):
            self.left_out.append((self._name(path), reason))
        else:
            self.files.append(path)

    def _against(self, path: Path, rules: "Rules") -> str | None:
        name = path.name.lower()
        if name in _GENERATED or name.endswith((".lock.json", "-lock.json", ".min.json", ".schema.json")):
            return "a lock file, licence or other boilerplate"
        if _ignored(rules, path, folder=False):
            return "ignored by .gitignore"
        try:
            if path.is_symlink() and not path.resolve(strict=True).is_relative_to(self.root.resolve()):
                return "a link that leaves the folder"
            return None if stat.S_ISREG(path.stat().st_mode) else "not a regular file"
        except (OSError, RuntimeError):  # a loop of links is either, depending on the version of Python
            return "a broken link or a loop of links"

    def _rules(self, here: Path) -> "Rules":
        """Return the rules of each `.gitignore` that applies in a folder, outermost first."""
        inside = [here, *here.parents]
        chain = inside[: inside.index(self.root) + 1]
        return [(folder, spec) for folder in reversed(chain) if (spec := self._spec(folder)) is not None]

    def _spec(self, folder: Path) -> GitIgnoreSpec | None:
        known = self._specs
        if folder not in known:
            known[folder] = _read_spec(folder / ".gitignore")
        return known[folder]

    def _name(self, path: Path) -> str:
        return str(path.relative_to(self.root)) if path.is_relative_to(self.root) else str(path)

    _specs: dict[Path, GitIgnoreSpec | None] = field(default_factory=dict)


Rules = list[tuple[Path, GitIgnoreSpec]]


def _read_spec(path: Path) -> GitIgnoreSpec | None:
    try:
        if not path.is_file() or path.stat().st_size > MAX_IGNORE_BYTES:
            return None
        return GitIgnoreSpec.from_lines(path.read_text(encoding="utf-8", errors="replace").splitlines())
    except (OSError, ValueError):
        return None


def _ignored(rules: Rules, path: Path, *, folder: bool) -> bool:
    """Return whether Git would ignore a path; a nearer file overrules the ones above it."""
    ignored = False
    for where, spec in rules:
        name = path.relative_to(where).as_posix() + ("/" if folder else "")
        said = spec.check_file(name).include
        ignored = ignored if said is None else said
    return ignored


def described(others: dict[str, int]) -> Iterator[str]:
    """Yield numbers of files by extension, as `3 .py`."""
    for suffix, count in sorted(others.items(), key=lambda item: (-item[1], item[0])):
        yield f"{count} {suffix}"
