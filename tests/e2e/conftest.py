"""What the end-to-end tests share: one service with a scripted model, and a hook that asks it."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from hooks import PreExecutionHook
from tests.support.stack import (
    FACTS,
    KEEP_ALL,
    MODEL_KEY,
    ModelServer,
    Stack,
    assert_discreet,
    put,
    running_model_server,
    running_stack,
)


@pytest.fixture(scope="session")
def model_server() -> Iterator[ModelServer]:
    with running_model_server() as server:
        yield server


@pytest.fixture
def model(model_server: ModelServer) -> ModelServer:
    """The model server, well-behaved at the start of the test: it chooses every fact that it is shown."""
    if model_server.process is None:
        model_server.start()
    model_server.behave(mode="ok", delay=0.0, show_delay=0.0, keep=KEEP_ALL)
    return model_server


@pytest.fixture(scope="session")
def service(model_server: ModelServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A service that no test may stop; what it has logged is looked through at the end."""
    folder = tmp_path_factory.mktemp("service")
    settings = folder / "settings.toml"
    settings.write_text("[memory_injection]\nlearn_cues = false\n", encoding="utf-8")  # tests must not teach others
    variables = {"MEESEEKS_MODEL_API_KEY": MODEL_KEY, "MEESEEKS_CONFIG": str(settings)}
    variables["MEESEEKS_CAPTURE_CALLS_PER_DAY"] = "0"  # the model is asked only by tests that say so
    with running_stack(folder, "up", *model_server.options, **variables) as stack:
        asyncio.run(put(stack.url, FACTS))
        yield stack
        assert stack.process is not None
        assert stack.process.poll() is None
        assert_discreet(stack.log)


@pytest.fixture
async def hook(service: Stack) -> AsyncIterator[PreExecutionHook]:
    async with PreExecutionHook(service.url) as hook:
        yield hook
