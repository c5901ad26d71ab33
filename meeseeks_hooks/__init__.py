"""The package `hooks` under the name that it has in the distribution `meeseeks-hooks`, so that programs run with both.

Importing it registers a finder, so that `meeseeks_hooks.contract` is the module `hooks.contract`, not a copy of it.
"""

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any

import hooks

if TYPE_CHECKING:
    from hooks import *  # noqa: F403

__all__ = hooks.__all__

PREFIX = f"{__name__}."


class _SameModules(MetaPathFinder, Loader):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(fullname, self) if fullname.startswith(PREFIX) else None

    def exec_module(self, module: ModuleType) -> None:
        sys.modules[module.__name__] = import_module(f"hooks.{module.__name__.removeprefix(PREFIX)}")


sys.meta_path.append(_SameModules())


def __getattr__(name: str) -> Any:
    """Return what `hooks` has, which loads it only then."""
    return getattr(hooks, name)
