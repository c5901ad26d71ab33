"""Everything that a service imports or compiles, late or not; the process that others are forked from loads it."""

import gc
import os
from importlib import import_module

from worker.adapters.models.litellm_process import prepare_environment
from worker.query.warm_up import warm_up

MODULES = (
    "worker.__main__",
    "worker.cli.serving",
    "worker.cli.background",
    "worker.api.app",
    "worker.bootstrap.console",
    "worker.adapters.models.litellm_chat",
    "uvicorn.main",
    "uvicorn.lifespan.on",
    "uvicorn.protocols.http.h11_impl",
    "fastapi.telemetry._runtime",
    "pydantic.v1",
    "worker.cli.local",
    "worker.cli.store",
    "worker.cli.memory.memories",
    "worker.cli.memory.transfers",
    "worker.cli.hosts.setup",
)

gc.disable()  # modules are no garbage, and what a collection walks is no longer shared with the forked processes
prepare_environment(os.environ)
for name in MODULES:
    import_module(name)
warm_up()
gc.freeze()
