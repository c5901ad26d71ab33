"""A long memory whose answer is at its end: found, shown with that part, and seen by the model."""

import json
from pathlib import Path

from hooks.contract import Engine
from tests.support.scripted_model import ScriptedModel, offered
from tests.support.service import NOW, Service, as_memory, fact, ids, open_service, shared_minilm
from worker.adapters.models.minilm import PROFILE
from worker.adapters.models.relevance_file import RelevanceProcess, read_relevance_model
from worker.adapters.qdrant.bm25 import Bm25Encoder
from worker.domain.deadline import Deadline
from worker.domain.memory import RecallQuery, Visibility
from worker.domain.model_calls import ChatRequest
from worker.domain.pages import Listed
from worker.domain.timings import Stages
from worker.injection.search_only import SearchOnlySelector
from worker.ports.store_record import StoreRecord
from worker.recall.recall import Recall, RecallScope
from worker.relevance.selector import RelevanceSelector
from worker.store.copying import PointBuilder
from worker.store.vectors import is_whole, vectors_of

FILLER = (
    "The weekly meeting covered the booking page, the harbour tariffs and the new colour of the buttons. Marit "
    "reported on the seating plan, Deniz on the price table, and everybody agreed to look again in spring. "
)
ANSWER = "The alarm code of the boat shed is kept in the red binder behind the workbench."
LONG = FILLER * 14 + ANSWER
QUESTION = "Where is the alarm code of the boat shed kept?"
OTHERS = [
    fact("m1", "Tyler is lactose intolerant"),
    fact("m2", "Login sessions expire after 30 minutes of inactivity"),
    fact("m3", "The boat is called Petrel"),
]


async def found_text(service: Service) -> str:
    result = await service.ask(QUESTION, deadline_ms=20_000)
    assert ids(result) == ["long"]
    assert result.memory_context is not None
    assert ANSWER in result.memory_context
    return result.items[0].text


async def test_search_scores_find_it_and_the_block_shows_the_part(tmp_path: Path) -> None:
    assert len(LONG) > 2_900
    async with open_service(tmp_path, strategy="deterministic") as service:
        await service.put([*OTHERS, fact("long", LONG)])
        text = await found_text(service)
        again = await service.ask(QUESTION, deadline_ms=20_000)
    assert len(text) <= 600
    assert text.startswith("…")
    assert [item.text for item in again.items] == [text], "a repeated turn shows the same part"


async def test_another_part_is_shown_when_it_is_asked_for_and_each_part_once(tmp_path: Path) -> None:
    first = "The kiln in the yard is fired to cone six on Thursdays."
    async with open_service(tmp_path, strategy="deterministic") as service:
        await service.put([*OTHERS, fact("long", first + FILLER * 14 + ANSWER)])
        asked = (QUESTION, "To which cone is the kiln in the yard fired?", QUESTION, "Where is the code of the alarm?")
        found = [await service.ask(one, turn=str(turn), deadline_ms=20_000) for turn, one in enumerate(asked)]
    shown = [" ".join(item.text for item in result.items) for result in found]
    assert [(first in text, ANSWER in text) for text in shown] == [(False, True), (True, False)] + [(False, False)] * 2


async def test_the_relevance_model_finds_it(tmp_path: Path) -> None:
    runner = RelevanceProcess(read_relevance_model())
    selector = RelevanceSelector(runner, shared_minilm(), SearchOnlySelector(PROFILE))
    async with open_service(tmp_path, relevance_model=selector, strategy="relevance") as service:
        await service.put([*OTHERS, fact("long", LONG)])
        await found_text(service)
        unrelated = await service.ask("What is the capital of France?", session_id="s2", deadline_ms=20_000)
    runner.close()
    assert unrelated.items == ()


async def test_a_chat_model_sees_the_part(tmp_path: Path) -> None:
    def choose(request: ChatRequest) -> str:
        return json.dumps({"relevant": [n for n, line in offered(request).items() if ANSWER in line]})

    model = ScriptedModel([choose])
    async with open_service(tmp_path, model=model, strategy="llm") as service:
        await service.put([*OTHERS, fact("long", LONG)])
        result = await service.ask(QUESTION, deadline_ms=20_000)
    assert (ids(result), result.engine) == (["long"], Engine.LLM)


async def test_keywords_alone_find_it(tmp_path: Path) -> None:
    async with open_service(tmp_path) as service:
        await service.put([*OTHERS, fact("long", LONG), fact("near", "The boat shed needs new paint")])
        recall = Recall(service.engine, Bm25Encoder("english"), None)
        scope = RecallScope("t1", Visibility(), NOW)
        found = await recall(RecallQuery(QUESTION), scope, service.config, Deadline.after(20.0), Stages())
    assert found.candidates[0].memory.id == "long"


async def test_cues_of_a_long_memory_stay_apart_from_its_pieces(tmp_path: Path) -> None:
    async with open_service(tmp_path, strategy="deterministic") as service:
        await service.put([*OTHERS, fact("long", LONG, cues=["the alarm went off, what now"])])
        by_cue = await service.ask("the alarm went off, what now", session_id="s2", deadline_ms=20_000)
        receipt = await service.receipt(by_cue)
        await found_text(service)
    assert next(one.cue for one in receipt.considered if one.id == "long") == "the alarm went off, what now"


async def test_a_reindex_adds_the_vectors_of_pieces(tmp_path: Path) -> None:
    embedder, memory = shared_minilm(), as_memory(fact("long", LONG))
    (whole,) = await vectors_of(embedder, [memory])
    assert is_whole(whole, memory)
    builder = PointBuilder(embedder, Bm25Encoder("english"))
    record = StoreRecord.of(PROFILE, "older")
    (stored,) = await builder.stored([Listed("t1", memory, whole.own, None)], record)
    assert stored.cues is not None
    assert whole.cues is not None
    assert stored.cues.rows == whole.cues.rows
