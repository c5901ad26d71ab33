"""What the tests of real parts share."""

from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from worker.adapters.models import minilm


@pytest.fixture(scope="package", autouse=True)
def one_embedding_session() -> Iterator[None]:
    """Load the weights of the embedder once: each session holds a hundred megabytes, and many tests open a service."""
    load = minilm._session

    @cache
    def session(threads: int, _: str) -> Any:
        return load(threads)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(minilm, "_session", lambda threads: session(threads, minilm.MODEL_SHA256))
        yield
