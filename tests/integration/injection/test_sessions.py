"""Sessions of many turns, with the real store, embedder and Valkey."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from hooks.contract import InjectionResult, Outcome, Reason, SessionEvent
from hooks.contract.blocks import find_blocks
from hooks.history import cap_blocks, visible_block_ids
from hooks.queue import connect
from tests.support.cases import case
from tests.support.scripted_model import ScriptedModel, offered
from tests.support.service import Service, fact, ids, open_service
from tests.support.valkey import forget, running_valkey
from worker.adapters.local.ledger import MemoryLedger
from worker.adapters.redis.ledger import RedisLedger
from worker.domain.deadline import Deadline
from worker.domain.errors import QueueError
from worker.domain.ledger import LedgerKey, LedgerView
from worker.domain.memory import CandidateVerdict
from worker.domain.model_calls import ChatRequest
from worker.injection import service as injection_service
from worker.injection.sessions import SessionService
from worker.text.tokens import estimate_tokens

TOWNS = (
    *("Aldersund", "Brannik", "Corvale", "Dremmen", "Eskholm", "Farrow"),
    *("Grelling", "Hestad", "Ibsel", "Jorvane", "Kelmis", "Lunde"),
)
KEY = fact("key", "The spare boat-shed key hangs behind the kayak rack at Lindholm")
HULL = fact("hull", "Ottilie sands the hull of the boat every second April")
QUESTION = "Where does the spare boat-shed key hang?"
MAIN = LedgerKey("t1", "s1", "main")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running_valkey() as server:
        yield server.url


@pytest.fixture
async def ledger(url: str) -> AsyncIterator[RedisLedger]:
    client = connect(url)
    yield RedisLedger(client, ttl_s=60)
    await client.aclose()
    forget(url)


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait longer for the ledger, so that requests on a busy machine do not go on without it."""
    monkeypatch.setattr(injection_service, "LEDGER_LIMIT", 20.0)


def everything(request: ChatRequest) -> str:
    return json.dumps({"relevant": list(offered(request)), "sufficient": True})


async def tell(service: Service, kind: str, session: str = "s1", **fields: Any) -> int:
    """Send an event and return the number of memories that were forgotten or adopted."""
    event = SessionEvent.model_validate({"type": kind, "session_id": session, "tenant": "t1", **fields})
    handled = await SessionService(service.ledger, lambda _: service.config).handle(event, Deadline.after(5))
    assert handled.done
    return handled.forgotten + handled.adopted


async def test_b05_parallel_requests_of_one_turn_lose_nothing(tmp_path: Path, ledger: RedisLedger) -> None:
    async with open_service(tmp_path, ledger=ledger, max_total=case("B05")["config"]["max_total"]) as service:
        facts = [fact(f"m{n}", f"The ferry office of {town} opens at {n + 6}:30") for n, town in enumerate(TOWNS)]
        await service.put(facts)

        async def ask(turn: int, number: int) -> InjectionResult:
            question = f"When does the ferry office of {TOWNS[number]} open?"
            return await service.ask(question, turn=f"turn-{turn}", deadline_ms=30_000)

        first = await asyncio.gather(*(ask(1, number) for number in range(12)))
        retried = await asyncio.gather(*(ask(1, number) for number in range(12)))
        shown = await ledger.peek(MAIN)
        second = await asyncio.gather(*(ask(2, number) for number in range(12)))
    assert [ids(result) for result in first] == [[f"m{number}"] for number in range(12)]
    assert [result.memory_context for result in retried] == [result.memory_context for result in first]
    assert set(shown.shown) == {f"m{number}" for number in range(12)}
    assert shown.turn == 1
    assert {result.outcome for result in second} == {Outcome.ALL_DUPLICATE}


async def test_b53_a_late_answer_does_not_count_as_shown(tmp_path: Path, ledger: RedisLedger) -> None:
    given = case("B53")
    async with open_service(tmp_path, ledger=ledger) as service:
        await service.put(given["memories"])
        late = await service.ask(given["request"]["message"], turn="4", commit=False)
        assert (await ledger.peek(MAIN)).shown == {}
        again = await service.ask(given["then"]["message"], turn="5")
        third = await service.ask(given["then"]["message"], turn="6")
    assert ids(late) == ids(again) == ["m1"]
    assert third.outcome is Outcome.ALL_DUPLICATE


WORDINGS = (
    "Mireille takes oat milk in her coffee",
    "Mireille has oat milk in her coffee",
    "Mireille always takes oat milk in her coffee",
    "In her coffee Mireille takes oat milk",
    "Mireille drinks her coffee with oat milk",
    "Mireille's coffee is with oat milk",
    "For coffee, Mireille takes oat milk",
    "Mireille likes oat milk in her coffee",
)


@pytest.mark.parametrize("path", ["model", "deterministic"])
async def test_b35_eight_duplicates_take_one_slot(tmp_path: Path, path: str) -> None:
    model = ScriptedModel([everything]) if path == "model" else None
    wordings = [
        fact(f"m{n}", text, created_at=f"2026-{1 + n // 8:02}-{1 + n % 8:02}T09:00:00Z")
        for n, text in enumerate(WORDINGS, 1)
    ]
    visit = fact("m9", "Mireille's visit is on 9 March, she stays two nights", created_at="2026-01-20T09:00:00Z")
    config: dict[str, Any] = {"max_total": 3, "confident_score": 0.2, "relative_cut": 0.2}
    async with open_service(tmp_path, model=model, **config) as service:
        await service.put([*wordings, visit])
        result = await service.ask("Mireille is coming, what should I prepare?")
        receipt = await service.receipt(result)
        again = await service.ask("How does Mireille take her coffee?", turn="2")
    assert set(ids(result)) == {"m8", "m9"}
    considered = {entry.id: entry for entry in receipt.considered}
    assert {considered[f"m{n}"].verdict for n in range(1, 8)} == {CandidateVerdict.DUPLICATE}
    assert {considered[f"m{n}"].duplicate_of for n in range(1, 8)} == {"m8"}
    assert not {f"m{n}" for n in range(1, 9)} & set(ids(again))


async def test_semantic_threshold_is_configurable(tmp_path: Path) -> None:
    config: dict[str, Any] = {"confident_score": 0.2, "relative_cut": 0.2}
    memories = [fact("m1", WORDINGS[0]), fact("m2", WORDINGS[1])]
    for threshold, expected in ((1.0, 2), (0.9, 1)):
        async with open_service(tmp_path / str(threshold), semantic_threshold=threshold, **config) as service:
            await service.put(memories)
            assert len(ids(await service.ask("What does Mireille take in her coffee?"))) == expected


async def test_only_delivered_memories_count_as_shown(tmp_path: Path, ledger: RedisLedger) -> None:
    """Memories over budget or undelivered do not count."""
    model = ScriptedModel([everything])
    async with open_service(tmp_path, model=model, ledger=ledger, max_total=1) as service:
        await service.put([KEY, HULL])
        first = await service.ask(f"{QUESTION} And who sands the hull of the boat?")
        receipt = await service.receipt(first)
        shown = (await ledger.peek(MAIN)).shown
        second = await service.ask("Who sands the hull of the boat?", turn="2")
    assert len(ids(first)) == 1
    assert receipt.chosen == tuple(ids(first)) == tuple(shown)
    assert {entry.verdict for entry in receipt.considered} >= {CandidateVerdict.CHOSEN, CandidateVerdict.OVER_ITEMS}
    assert set(ids(second)).isdisjoint(ids(first))
    assert len(ids(second)) == 1


async def test_ephemeral_blocks_never_count_as_shown(tmp_path: Path, ledger: RedisLedger) -> None:
    async with open_service(tmp_path, ledger=ledger) as service:
        await service.put([KEY])
        first = await service.ask(QUESTION, turn="1", retention="ephemeral")
        retried = await service.ask(QUESTION, turn="1", retention="ephemeral")
        second = await service.ask(QUESTION, turn="2", retention="history")
    assert ids(first) == ids(second) == ["key"]
    assert retried.memory_context == first.memory_context


@pytest.mark.parametrize("retention", [{}, {"retention": "history"}])
async def test_without_blocks_in_the_history_every_block_is_ephemeral(
    tmp_path: Path, ledger: RedisLedger, retention: dict[str, str]
) -> None:
    async with open_service(tmp_path, ledger=ledger, max_injected_blocks_in_history=0) as service:
        await service.put([KEY])
        first = await service.ask(QUESTION, turn="1", **retention)
        second = await service.ask(QUESTION, turn="2", **retention)
        lasting = await service.ask(QUESTION, turn="3", retention="system")
        again = await service.ask(QUESTION, turn="4", retention="system")
    assert ids(first) == ids(second) == ids(lasting) == ["key"]
    assert (first.history_cap, again.outcome) == (0, Outcome.ALL_DUPLICATE)


@pytest.mark.parametrize(
    ("setting", "asked", "opening"),
    [
        ({}, None, "<memory_context>"),
        ({"format": "sections"}, None, "[Context from memory]"),
        ({"format": "plain"}, "sections", "[Context from memory]"),
        ({"format": "sections"}, "xml", "<memory_context>"),
    ],
)
async def test_the_setting_decides_the_format_unless_the_request_does(
    tmp_path: Path, setting: dict[str, str], asked: str | None, opening: str
) -> None:
    async with open_service(tmp_path, **setting) as service:
        await service.put([KEY])
        result = await service.ask(QUESTION, render={"format": asked} if asked else {})
    assert result.memory_context is not None
    assert result.memory_context.splitlines()[0] == opening
    assert find_blocks(result.memory_context) == [result.memory_context]


async def test_system_blocks_survive_time_and_compaction(tmp_path: Path, ledger: RedisLedger) -> None:
    async with open_service(tmp_path, ledger=ledger, context_window_depth=1) as service:
        await service.put([KEY])
        await service.ask(QUESTION, turn="1", retention="system")
        await tell(service, "context.compacted")
        later = [await service.ask(QUESTION, turn=str(turn), retention="system") for turn in (2, 3)]
        assert await tell(service, "session.cleared") == 1
        anew = await service.ask(QUESTION, turn="4", retention="system")
    assert {result.outcome for result in later} == {Outcome.ALL_DUPLICATE}
    assert ids(anew) == ["key"]


async def test_p6_a_memory_is_injected_again_after_the_window(tmp_path: Path, ledger: RedisLedger) -> None:
    async with open_service(tmp_path, ledger=ledger, context_window_depth=2) as service:
        await service.put([KEY])
        outcomes = [ids(await service.ask(QUESTION, turn=str(turn))) for turn in range(1, 6)]
    assert outcomes == [["key"], [], ["key"], [], ["key"]]


async def test_window_of_ten_turns_prevents_excessive_repeats(tmp_path: Path) -> None:
    async with open_service(tmp_path) as service:
        await service.put([KEY])
        outcomes = [bool(ids(await service.ask(QUESTION, turn=str(turn)))) for turn in range(1, 12)]
    assert outcomes == [True, *[False] * 9, True]


async def test_visible_blocks_reveal_time_travel(tmp_path: Path, ledger: RedisLedger) -> None:
    """Run from an earlier checkpoint: the ledger has a block that the context lacks."""
    async with open_service(tmp_path, ledger=ledger) as service:
        await service.put([KEY, HULL])
        history: list[dict[str, str]] = []
        for turn, question in enumerate((QUESTION, "Who sands the hull of the boat?")):
            result = await service.ask(question, turn=str(turn), visible_blocks=visible_block_ids(history))
            history.append({"role": "user", "content": result.prefix(question)})
        seen = await service.ask(QUESTION, turn="3", visible_blocks=visible_block_ids(history))
        travelled = await service.ask(QUESTION, turn="4", visible_blocks=visible_block_ids(history[1:]))
        blind = await service.ask(QUESTION, turn="5")
    assert seen.outcome is Outcome.ALL_DUPLICATE
    assert ids(travelled) == ["key"]
    assert blind.outcome is Outcome.ALL_DUPLICATE


async def test_a_fork_copies_its_parents_ledger(tmp_path: Path, ledger: RedisLedger) -> None:
    async with open_service(tmp_path, ledger=ledger) as service:
        await service.put([KEY])
        first = await service.ask(QUESTION, turn="1")
        unknown = await service.ask(QUESTION, turn="1", session_id="stranger", commit=False)
        assert await tell(service, "session.forked", "child", parent_session_id="s1") == 1
        assert await tell(service, "session.forked", "orphan", visible_blocks=[first.block_id]) == 1
        forks = [await service.ask(QUESTION, turn="2", session_id=name) for name in ("child", "orphan")]
    assert ids(unknown) == ["key"]
    assert {fork.outcome for fork in forks} == {Outcome.ALL_DUPLICATE}


@pytest.mark.parametrize(("policy", "comes_again"), [("dropped", True), ("reset", True), ("keep", False)])
async def test_compaction_follows_the_setting(
    tmp_path: Path, ledger: RedisLedger, policy: str, comes_again: bool
) -> None:
    async with open_service(tmp_path, ledger=ledger, on_compaction=policy) as service:
        await service.put([KEY])
        await service.ask(QUESTION, turn="1")
        await tell(service, "context.compacting")
        pending = await service.ask(QUESTION, turn="2")
        await tell(service, "context.compacted")
        after = await service.ask(QUESTION, turn="3")
    assert pending.outcome is Outcome.ALL_DUPLICATE
    assert ids(after) == (["key"] if comes_again else [])


async def test_memories_of_a_failed_turn_are_injected_again(tmp_path: Path, ledger: RedisLedger) -> None:
    async with open_service(tmp_path, ledger=ledger) as service:
        await service.put([KEY])
        first = await service.ask(QUESTION, turn="1")
        assert await tell(service, "turn.failed", turn_id="1") == 1
        retried = await service.ask(QUESTION, turn="1")
        shown_again = await service.ask(QUESTION, turn="2")
    assert retried.memory_context == first.memory_context
    assert shown_again.outcome is Outcome.ALL_DUPLICATE


async def test_a_dry_run_starts_no_turn(tmp_path: Path, ledger: RedisLedger) -> None:
    async with open_service(tmp_path, ledger=ledger) as service:
        await service.put([KEY])
        before = await service.ask(QUESTION, turn="1", dry_run=True)
        assert (await ledger.peek(MAIN)).turn == 0
        await service.ask(QUESTION, turn="1")
        after = await service.ask(QUESTION, turn="2", dry_run=True)
    assert ids(before) == ["key"]
    assert after.outcome is Outcome.ALL_DUPLICATE


@pytest.mark.parametrize("cap", [0, 1, 3])
async def test_history_respects_the_block_limit(tmp_path: Path, cap: int) -> None:
    async with open_service(tmp_path, max_injected_blocks_in_history=cap) as service:
        await service.put(
            [fact(f"m{n}", f"The ferry office of {town} opens at {n + 6}:30") for n, town in enumerate(TOWNS)]
        )
        history: list[Any] = []
        for turn, town in enumerate(TOWNS[:5]):
            message = f"When does the ferry office of {town} open?"
            result = await service.ask(message, turn=str(turn), visible_blocks=visible_block_ids(history))
            assert result.history_cap == cap
            assert result.memory_context
            history = [*cap_blocks(history, result.history_cap), {"role": "user", "content": result.prefix(message)}]
            blocks = [found for message in history for found in find_blocks(message["content"])]
            assert len(blocks) == min(turn + 1, max(cap, 1))


async def test_p10_max_tokens_bounds_the_block(tmp_path: Path) -> None:
    counts = []
    for limit in (90, 150):
        model = ScriptedModel([everything])
        async with open_service(tmp_path / str(limit), model=model, max_items=12, max_tokens=limit) as service:
            facts = [fact(f"m{n}", f"The ferry office of {town} opens at {n + 6}:30") for n, town in enumerate(TOWNS)]
            await service.put(facts)
            result = await service.ask("When do the ferry offices of all the towns open?")
            receipt = await service.receipt(result)
        assert estimate_tokens(result.memory_context or "") <= limit
        assert CandidateVerdict.OVER_TOKENS in {entry.verdict for entry in receipt.considered}
        assert receipt.chosen == tuple(ids(result))
        counts.append(len(ids(result)))
    assert 0 < counts[0] < counts[1] < len(TOWNS)


async def test_b37_pinned_goals_leave_room_for_found_memories(tmp_path: Path) -> None:
    given = case("B37")
    tokens = given["config"].pop("token_budget")
    goals = [
        fact(f"g{n}", f"Goal {n}: " + f"water bed {n} every day " * 24, type="goal", created_at=f"2026-01-{n + 1:02}")
        for n in range(12)
    ]
    padlock = fact("m1", "Allotment gate padlock is 3380")
    async with open_service(tmp_path, **given["config"], max_tokens=tokens) as service:
        await service.put([*goals, padlock])
        result = await service.ask(given["request"]["message"])
        receipt = await service.receipt(result)
    text = result.memory_context or ""
    assert "padlock is 3380" in text
    assert estimate_tokens(text) <= tokens
    assert list(receipt.chosen) == ids(result)
    assert [item.text in text for item in result.items] == [True] * len(result.items)
    assert sum(f"Goal {n}: " in text for n in range(12)) == len(ids(result)) - 1 > 1
    verdicts = {entry.id: entry.verdict for entry in receipt.considered}
    assert {name for name, verdict in verdicts.items() if verdict is CandidateVerdict.CHOSEN} == set(ids(result))
    assert {verdicts[f"g{n}"] for n in range(12)} == {CandidateVerdict.CHOSEN, CandidateVerdict.OVER_TOKENS}


DOWN = QueueError(Reason.QUEUE_UNAVAILABLE, "refused")
HANGS = TimeoutError()


class FailingLedger(MemoryLedger):
    """A ledger whose methods raise what is in `broken` under their names."""

    def __init__(self) -> None:
        super().__init__()
        self.broken: dict[str, Exception] = {}

    async def view(self, key: LedgerKey, turn_key: str, *, depth: int) -> LedgerView:
        self._fail("view")
        return await super().view(key, turn_key, depth=depth)

    async def peek(self, key: LedgerKey) -> LedgerView:
        self._fail("peek")
        return await super().peek(key)

    async def offer(self, *arguments: Any, **options: Any) -> frozenset[str]:
        self._fail("offer")
        return await super().offer(*arguments, **options)

    def _fail(self, method: str) -> None:
        if method in self.broken:
            raise self.broken[method]


@pytest.mark.parametrize(
    ("broken", "retention", "reason", "expected"),
    [
        ({"view": HANGS}, "history", Reason.ALREADY_SHOWN, []),
        ({"view": DOWN, "peek": DOWN}, "history", Reason.ALREADY_SHOWN, []),
        ({"view": DOWN, "offer": DOWN}, "history", Reason.ALREADY_SHOWN, []),
        ({"offer": HANGS}, "history", Reason.ALREADY_SHOWN, []),
        ({"view": HANGS, "offer": HANGS}, "history", Reason.QUEUE_UNAVAILABLE, []),
        ({"view": HANGS, "offer": HANGS}, "ephemeral", None, ["m1"]),
        ({"view": DOWN, "peek": DOWN, "offer": DOWN}, "history", None, ["m1"]),
    ],
)
async def test_what_was_shown_is_not_repeated_while_the_ledger_hangs_or_is_full(
    broken: dict[str, Exception], retention: str, reason: Reason | None, expected: list[str], tmp_path: Path
) -> None:
    """A full ledger can be read; while Redis is down, requests that need no queue go on without the ledger."""
    ledger = FailingLedger()
    async with open_service(tmp_path, ledger=ledger, strategy="deterministic") as service:
        await service.put([fact("m1", "The regatta starts at the north pier")])
        first = await service.ask("Where does the regatta start?", deadline_ms=20_000)
        ledger.broken = broken
        again = await service.ask(
            "Where does the regatta start?", deadline_ms=20_000, turn="2", commit=False, retention=retention
        )
    assert ids(first) == ["m1"]
    assert ids(again) == expected
    assert again.reason is reason


@pytest.mark.parametrize("error", [HANGS, DOWN], ids=str)
async def test_a_new_memory_comes_if_the_ledger_was_read_but_cannot_be_written(
    error: Exception, tmp_path: Path
) -> None:
    ledger = FailingLedger()
    ledger.broken = {"offer": error}
    async with open_service(tmp_path, ledger=ledger, strategy="deterministic") as service:
        await service.put([fact("m1", "The regatta starts at the north pier")])
        assert ids(await service.ask("Where does the regatta start?", deadline_ms=20_000, commit=False)) == ["m1"]
