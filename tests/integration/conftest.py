"""What the tests of real parts share."""

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tests.support.valkey import running_valkey
from worker.adapters.models import minilm
from worker.domain.memory import Vector

MOST_KNOWN = 4_000
_known: dict[tuple[int, *tuple[str, ...]], npt.NDArray[np.float32]] = {}


@pytest.fixture(scope="module")
def valkey() -> Iterator[str]:
    with running_valkey() as server:
        yield server.url


@pytest.fixture(scope="package", autouse=True)
def one_embedding_session() -> Iterator[None]:
    """Load the weights of the embedder once: many tests open a service."""
    load = minilm.make_session

    @cache
    def session(*_: str) -> Any:
        return load()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(minilm, "make_session", lambda: session(minilm.MODEL_SHA256, minilm.GRAPH_SHA256))
        yield


@pytest.fixture(scope="module", autouse=True)
def same_texts_once(request: pytest.FixtureRequest) -> Iterator[None]:
    """Run the embedder once for texts that many tests store, except in the tests of adapters, which are about it."""
    if "adapters" in request.path.parts:
        yield
        return
    embed = minilm.MiniLmEmbedder._embed

    def remembered(embedder: minilm.MiniLmEmbedder, texts: list[str], tokens: int) -> list[Vector]:
        embedder._loaded()
        key = (tokens, *texts)
        found = _known.get(key)
        if found is None:
            if len(_known) >= MOST_KNOWN:
                _known.clear()
            found = _known[key] = np.array(embed(embedder, texts, tokens), dtype=np.float32)  # as the model makes them
        return [tuple(row) for row in found.tolist()]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(minilm.MiniLmEmbedder, "_embed", remembered)
        yield
