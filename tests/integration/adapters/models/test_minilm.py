"""The real model: golden values, results independent of batches, and a responsive event loop."""

import asyncio
import math
import time
from collections.abc import AsyncIterator
from importlib import resources

import numpy as np
import onnxruntime
import pytest
import pytest_asyncio

from worker.adapters.models import minilm
from worker.adapters.models.minilm import MiniLmEmbedder, read_checked
from worker.domain.errors import EmbedderError
from worker.domain.memory import Vector

QUERY = "Which database do we use for the billing service?"
RELEVANT = "The billing service stores its data in PostgreSQL 16."
IRRELEVANT = "Anna prefers tea over coffee in the morning."
MAKE_SESSION = minilm.make_session
"""The function itself, which `conftest.py` replaces by a session made once."""

ODD = ["", " ", "\0", "👍🎉", "数据库使用 PostgreSQL", "\ud800 broken", "x" * 300_000, "word " * 50_000, "\u202e\u0301"]


def cosine(a: Vector, b: Vector) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def embedder() -> AsyncIterator[MiniLmEmbedder]:
    made = MiniLmEmbedder()
    await made.warm()
    yield made
    await made.aclose()


pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_golden_values(embedder: MiniLmEmbedder) -> None:
    """Allow for different rounding of processors."""
    query = await embedder.embed_query(QUERY)
    relevant, irrelevant = await embedder.embed_passages([RELEVANT, IRRELEVANT])
    assert query[:5] == pytest.approx((-0.0458, -0.0603, -0.0761, -0.0359, -0.0705), abs=5e-3)
    assert cosine(query, relevant) == pytest.approx(0.746, abs=0.02)
    assert cosine(query, irrelevant) == pytest.approx(0.105, abs=0.03)


async def test_vectors_are_close_to_those_of_the_package_s_own_graph() -> None:
    """That graph turns the weights into floats; stores from before hold its vectors."""
    file = str(resources.files(minilm.MODEL_PACKAGE) / minilm.MODEL_FILE)
    floats = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    model = minilm._load()
    for text in (
        QUERY,
        RELEVANT,
        IRRELEVANT,
        "数据库使用 PostgreSQL",
        "a much longer text about the release plan " * 20,
    ):
        ids = np.array([model.tokenizer.encode(text).ids])
        feed = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        wanted = minilm._unit_vectors(floats.run(None, feed)[0].mean(axis=1))
        assert cosine(wanted[0], minilm._unit_vectors(minilm._mean_over_tokens(model, [text], 256))[0]) > 0.99


async def test_processors_that_need_unsigned_bytes_get_the_same_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = minilm._mean_over_tokens(minilm._load(), [QUERY, RELEVANT], 256)
    kinds: list[bool] = []
    session = minilm._session
    monkeypatch.setattr(
        minilm, "_session", lambda graph, *, unsigned: (kinds.append(unsigned), session(graph, unsigned=unsigned))[1]
    )
    monkeypatch.setattr(minilm, "_adds_up", lambda _: False)
    tokenizer = minilm.make_tokenizer()
    found = minilm._mean_over_tokens(minilm._Model(MAKE_SESSION(), tokenizer), [QUERY, RELEVANT], 256)
    assert kinds == [False, True]
    assert np.abs(found - expected).max() < 1e-3


async def test_a_wrong_sum_of_products_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    session = minilm._session(read_checked(minilm.ASSETS, minilm.GRAPH_FILE, minilm.GRAPH_SHA256), unsigned=True)
    assert minilm._adds_up(session)
    monkeypatch.setattr(minilm, "LARGEST_SUM", 32_767 * 32)
    assert not minilm._adds_up(session)


async def test_vectors_have_unit_length_and_the_profile_is_theirs(embedder: MiniLmEmbedder) -> None:
    vectors = await embedder.embed_passages(ODD)
    assert len(vectors) == len(ODD)
    assert {len(vector) for vector in vectors} == {embedder.profile.dimension}
    assert all(math.isclose(cosine(vector, vector), 1.0, abs_tol=1e-5) for vector in vectors)
    assert embedder.profile.revision == "8199be6f699a"


async def test_grouping_does_not_change_a_vector(embedder: MiniLmEmbedder) -> None:
    texts = [f"memory {number} " + "about the release plan " * (number % 7) for number in range(40)]
    together = await embedder.embed_passages(texts)
    for number in (0, 6, 13, 39):
        alone = (await embedder.embed_passages([texts[number]]))[0]
        assert cosine(alone, together[number]) > 0.999
        best = max(range(40), key=lambda other: cosine(alone, together[other]))
        assert best == number


async def test_only_the_start_of_a_long_text_counts(embedder: MiniLmEmbedder) -> None:
    start = "the release plan of the billing service " * 60
    assert await embedder.embed_query(start + "tail") == await embedder.embed_query(start + "another end")


async def test_no_passages_no_vectors(embedder: MiniLmEmbedder) -> None:
    assert await embedder.embed_passages([]) == []


async def test_concurrent_calls_do_not_mix(embedder: MiniLmEmbedder) -> None:
    texts = [f"person {number} lives in city {number * 7}" for number in range(12)]
    alone = [await embedder.embed_query(text) for text in texts]
    mixed, _ = await asyncio.gather(
        asyncio.gather(*(embedder.embed_query(text) for text in texts)), embedder.embed_passages(texts * 3)
    )
    assert mixed == alone


async def test_a_query_goes_ahead_of_waiting_passages(embedder: MiniLmEmbedder) -> None:
    imports = [
        asyncio.create_task(embedder.embed_passages(["a note of a dozen words on the plan"] * 160)) for _ in range(3)
    ]
    await asyncio.sleep(0.05)
    await embedder.embed_query(QUERY)
    assert not any(task.done() for task in imports)
    await asyncio.gather(*imports)


async def test_passages_of_another_caller_do_not_wait_for_a_whole_import(embedder: MiniLmEmbedder) -> None:
    work = asyncio.create_task(embedder.embed_passages(["a note of a dozen words on the plan"] * 480))
    await asyncio.sleep(0.05)
    await embedder.embed_passages([RELEVANT])
    assert not work.done()
    await work


async def test_a_long_text_is_cut_at_the_number_of_tokens(embedder: MiniLmEmbedder) -> None:
    """A word is one token, and two tokens mark beginning and end."""
    words = "plan " * 300
    vectors = await asyncio.gather(*(embedder.embed_query(words[: 5 * number]) for number in (125, 126, 127, 300)))
    assert vectors[0] != vectors[1] == vectors[2] == vectors[3]
    (cut,), (whole,) = await embedder.embed_passages([words]), await embedder.embed_passages([words[: 5 * 254]])
    assert cut == whole


async def test_the_model_is_loaded_once_for_calls_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    loads: list[object] = []
    load = minilm._load
    monkeypatch.setattr(minilm, "_load", lambda: (loads.append(1), load())[1])
    made = MiniLmEmbedder()
    await asyncio.gather(*(made.embed_query(f"{number}") for number in range(6)), made.embed_passages(["a"] * 20))
    await made.aclose()
    assert len(loads) == 1


async def test_the_loop_stays_free_while_passages_are_embedded(embedder: MiniLmEmbedder) -> None:
    """Bound the median tightly and the maximum loosely, since other processes may take the core."""
    work = asyncio.create_task(
        embedder.embed_passages([f"note {n} on the release plan of the service" for n in range(64)])
    )
    lags = []
    while not work.done():
        before = time.perf_counter()
        await asyncio.sleep(0.005)
        lags.append(time.perf_counter() - before - 0.005)
    await work
    assert len(lags) > 5
    assert sorted(lags)[len(lags) // 2] < 0.02
    assert max(lags) < 0.25


async def test_a_cancelled_query_leaves_the_embedder_usable(embedder: MiniLmEmbedder) -> None:
    busy = asyncio.create_task(embedder.embed_passages(["busy"] * 32))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(embedder.embed_query("too late " * 100), 0.001)
    assert cosine(await embedder.embed_query(QUERY), await embedder.embed_query(QUERY)) == pytest.approx(1.0, abs=1e-5)
    await busy


async def test_a_closed_embedder_says_so() -> None:
    made = MiniLmEmbedder()
    await made.aclose()
    with pytest.raises(EmbedderError, match="closed"):
        await made.embed_query("a")


@pytest.mark.parametrize(("digest", "file"), [("MODEL_SHA256", r"model\.onnx"), ("GRAPH_SHA256", r"minilm\.onnx")])
async def test_other_weights_and_graphs_are_refused(monkeypatch: pytest.MonkeyPatch, digest: str, file: str) -> None:
    monkeypatch.setattr(minilm, digest, "0" * 64)
    made = MiniLmEmbedder()
    for _ in range(2):
        with pytest.raises(EmbedderError, match=f"{file} .* not the expected file"):
            await made.warm()
    await made.aclose()


async def test_missing_weights_are_named() -> None:
    with pytest.raises(EmbedderError, match=r"model\.onnx of no_such_package cannot be read"):
        read_checked("no_such_package", "model.onnx", minilm.MODEL_SHA256)
