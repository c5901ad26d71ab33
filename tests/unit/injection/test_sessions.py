"""Effects of session events on ledgers."""

from typing import Any

import pytest
from pydantic import ValidationError

from hooks.contract import SessionEvent, SessionEventResult
from worker.adapters.local.ledger import MemoryLedger
from worker.domain.deadline import Deadline
from worker.domain.ledger import LedgerEntry, LedgerKey
from worker.injection.sessions import PENDING_TURNS, SessionService, shown_in
from worker.settings.injection import InjectionConfig


class Sessions:
    """Sessions of tenant t: turns that show one memory each, and events."""

    def __init__(self, **config: Any) -> None:
        self.ledger = MemoryLedger()
        settings = InjectionConfig.model_validate(config)
        self.service = SessionService(self.ledger, lambda _: settings)

    async def turn(self, name: str, session: str = "s", agent: str = "main", **fields: Any) -> str:
        """Show the memory `m<name>` in the block `b<name>`."""
        key = LedgerKey("t", session, agent)
        view = await self.ledger.view(key, name, depth=100)
        entry = LedgerEntry(1, view.turn, f"b{name}", f"text {name}", **fields)
        await self.ledger.offer(key, name, "answer", {f"m{name}": entry})
        await self.ledger.commit(key, name)
        return entry.block_id

    async def event(self, kind: str, session: str = "s", **fields: Any) -> SessionEventResult:
        event = SessionEvent.model_validate({"type": kind, "session_id": session, "tenant": "t", **fields})
        return await self.service.handle(event, Deadline.after(5))

    async def shown(self, session: str = "s", agent: str = "main") -> set[str]:
        return set((await self.ledger.peek(LedgerKey("t", session, agent))).shown)


async def three_turns(**config: Any) -> Sessions:
    sessions = Sessions(**config)
    for name in "123":
        await sessions.turn(name)
    return sessions


@pytest.mark.parametrize("kind", ["session.started", "session.cleared"])
async def test_a_restarted_session_has_an_empty_ledger(kind: str) -> None:
    sessions = await three_turns(on_compaction="keep")
    await sessions.turn("x", agent="scout")
    result = await sessions.event(kind)
    assert (result.done, result.forgotten) == (True, 4)
    assert await sessions.shown() | await sessions.shown(agent="scout") == set()


async def test_a_single_agent_can_restart() -> None:
    sessions = await three_turns()
    await sessions.turn("x", agent="scout")
    await sessions.event("agent.started", agent_id="scout")
    assert await sessions.shown(agent="scout") == set()
    assert await sessions.shown() == {"m1", "m2", "m3"}


async def test_a_resumed_session_keeps_its_ledger() -> None:
    sessions = await three_turns()
    result = await sessions.event("session.resumed")
    assert (result.forgotten, result.adopted) == (0, 0)
    assert await sessions.shown() == {"m1", "m2", "m3"}


async def test_visible_blocks_correct_a_resumed_session() -> None:
    sessions = await three_turns()
    await sessions.turn("far", session="lost")
    result = await sessions.event("session.resumed", visible_blocks=["b1", "bfar"])
    assert (result.forgotten, result.adopted) == (2, 1)
    assert await sessions.shown() == {"m1", "mfar"}


async def test_a_fork_copies_its_parents_ledger() -> None:
    sessions = await three_turns()
    result = await sessions.event("session.forked", "child", parent_session_id="s")
    again = await sessions.event("session.forked", "child", parent_session_id="s")
    assert (result.adopted, again.adopted) == (3, 0)
    assert await sessions.shown("child") == {"m1", "m2", "m3"}
    await sessions.turn("4", "child")
    assert await sessions.shown() == {"m1", "m2", "m3"}
    assert (await sessions.ledger.peek(LedgerKey("t", "child", "main"))).turn == 4


async def test_a_fork_is_limited_to_its_visible_blocks() -> None:
    sessions = await three_turns()
    await sessions.event("session.forked", "child", parent_session_id="s", visible_blocks=["b1"])
    assert await sessions.shown("child") == {"m1"}


@pytest.mark.parametrize("parent", [None, "never-seen"])
async def test_a_fork_of_an_unknown_parent_uses_visible_blocks(parent: str | None) -> None:
    sessions = await three_turns()
    result = await sessions.event("session.forked", "child", parent_session_id=parent, visible_blocks=["b2", "none"])
    assert result.adopted == 1
    assert await sessions.shown("child") == {"m2"}


async def test_a_fork_without_known_blocks_is_empty() -> None:
    sessions = await three_turns()
    assert (await sessions.event("session.forked", "child")).adopted == 0
    assert await sessions.shown("child") == set()


@pytest.mark.parametrize(
    ("policy", "fields", "left"),
    [
        ("dropped", {}, {"ms"}),
        ("dropped", {"visible_blocks": ["b3", "bs"]}, {"m3", "ms"}),
        ("dropped", {"removed_blocks": ["b1"]}, {"m2", "m3", "ms"}),
        ("dropped", {"kept_turns": 2}, {"m3", "ms"}),
        ("reset", {"visible_blocks": ["b3"]}, set()),
        ("keep", {}, {"m1", "m2", "m3", "ms"}),
    ],
)
async def test_compaction_follows_the_setting(policy: str, fields: dict[str, Any], left: set[str]) -> None:
    sessions = await three_turns(on_compaction=policy)
    await sessions.turn("s", lasting=True)
    result = await sessions.event("context.compacted", **fields)
    assert await sessions.shown() == left
    assert result.forgotten == 4 - len(left)


@pytest.mark.parametrize("policy", ["dropped", "reset", "keep"])
async def test_clearing_drops_everything(policy: str) -> None:
    sessions = await three_turns(on_compaction=policy)
    await sessions.turn("s", lasting=True)
    assert (await sessions.event("session.cleared")).forgotten == 4


async def test_a_started_compaction_drops_nothing() -> None:
    sessions = await three_turns()
    assert (await sessions.event("context.compacting")).forgotten == 0
    assert await sessions.shown() == {"m1", "m2", "m3"}


async def test_memories_shown_during_compaction_stay() -> None:
    sessions = await three_turns()
    await sessions.event("context.compacting")
    await sessions.turn("4")
    await sessions.event("context.compacted")
    assert await sessions.shown() == {"m4"}
    await sessions.event("context.compacted")
    assert await sessions.shown() == {"m4"}, "the same compaction, reported again"
    await sessions.turn("5")
    await sessions.turn("6")
    await sessions.event("context.compacted")
    assert await sessions.shown() == set()


async def test_an_old_unfinished_compaction_is_ignored() -> None:
    sessions = await three_turns()
    await sessions.event("context.compacting")
    for number in range(PENDING_TURNS + 1):
        await sessions.turn(f"later{number}")
    await sessions.event("context.compacted")
    assert await sessions.shown() == set()


async def test_pruned_blocks_are_dropped() -> None:
    sessions = await three_turns(on_compaction="keep")
    result = await sessions.event("context.pruned", removed_blocks=["b1", "b2"])
    assert result.forgotten == 2
    assert await sessions.shown() == {"m3"}


async def test_a_failed_turn_is_withdrawn() -> None:
    sessions = await three_turns()
    assert (await sessions.event("turn.failed", turn_id="2")).forgotten == 1
    assert await sessions.shown() == {"m1", "m3"}


async def test_tenants_and_sessions_are_separate() -> None:
    sessions = await three_turns()
    await sessions.turn("x", "other")
    await sessions.event("session.cleared", "other")
    await sessions.event("session.cleared", tenant="another")
    assert await sessions.shown() == {"m1", "m2", "m3"}


@pytest.mark.parametrize(
    ("kind", "fault"),
    [("agent.started", "needs agent_id"), ("turn.failed", "needs turn_id"), ("context.pruned", "needs visible_blocks")],
)
def test_an_incomplete_event_is_rejected(kind: str, fault: str) -> None:
    with pytest.raises(ValidationError, match=fault):
        SessionEvent.model_validate({"type": kind, "session_id": "s"})


async def test_the_ledger_of_a_session_can_be_read() -> None:
    sessions = await three_turns()
    (main,) = shown_in(await sessions.service.show("t", "s"))
    assert (main["agent_id"], main["turn"]) == ("main", 3)
    assert [(entry["id"], entry["text"]) for entry in main["shown"]] == [
        ("m3", "text 3"),
        ("m2", "text 2"),
        ("m1", "text 1"),
    ]


async def test_a_compaction_that_began_before_the_first_turn_keeps_what_was_shown_since() -> None:
    sessions = Sessions()
    await sessions.ledger.adopt(LedgerKey("t", "s", "main"), 0, {"m0": LedgerEntry(1, 0, "b0", "text 0")})
    await sessions.event("context.compacting", agent_id="main")
    await sessions.turn("1")
    assert (await sessions.event("context.compacted", agent_id="main")).forgotten == 1
    assert await sessions.shown() == {"m1"}
