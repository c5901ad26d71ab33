"""What a model read is kept only if the user's own words say it."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from worker.capture.checks import Reading, check_reading
from worker.capture.finding import Frame
from worker.capture.reading import RawOperation, parse_operations
from worker.capture.window import Window
from worker.domain.capture import CaptureSource, Change, ChangeKind, DropReason, WindowTurn
from worker.domain.kinds import Language
from worker.domain.memory import Memory, MemoryScope, MemoryType

AT = datetime(2026, 3, 4, 9, tzinfo=UTC)
FRAME = Frame("c1", CaptureSource(session_id="s1", user="hana", project="shop"), AT, tuple(Language))
LIVES = Memory(id="lives", content="Mia, the user's sister, lives in Zürich", scope=MemoryScope(user="hana"))
DENTIST = Memory(id="dentist", content="The dentist is Dr. Weber", scope=MemoryScope(user="hana"))
OTHERS = Memory(id="others", content="Mia lives in Rome", scope=MemoryScope(user="bo"))
KNOWN = (LIVES, DENTIST, OTHERS)


def turn(text: str, role: str = "user", *, evidence: bool = True) -> WindowTurn:
    return WindowTurn(key=text[:20], id=text[:20], role=role, text=text, at=AT, evidence=evidence and role == "user")


def operation(text: str, **fields: Any) -> RawOperation:
    given = {"turns": (1,), "kind": "add", "target": None, "about": "user", "type": "fact", "when": None, "cues": ()}
    return RawOperation(**{**given, "text": text, **fields})


def checked(
    said: str | list[WindowTurn], *operations: RawOperation, known: tuple[Memory, ...] = KNOWN, frame: Frame = FRAME
) -> tuple[tuple[Change, ...], list[DropReason]]:
    turns = [turn(said)] if isinstance(said, str) else said
    found = check_reading(Reading(Window(tuple(turns)), known, operations, ("zorblatt",), "m", "capture@1"), frame)
    return found.changes, [one.reason for one in found.drops]


def test_what_the_user_said_is_kept_with_its_sentence() -> None:
    said = "fix the test. btw my brother Tom moves to Oslo tomorrow. thanks"
    raw = operation("The user's brother Tom moves to Oslo", when="tomorrow", type="event", cues=("where is Tom?",))
    (change,), drops = checked(said, raw)
    assert (change.kind, drops, change.memory.type) == (ChangeKind.ADD, [], MemoryType.EVENT)
    assert change.memory.evidence is not None
    assert change.memory.evidence.text == "btw my brother Tom moves to Oslo tomorrow."
    assert change.memory.occurred_at == datetime(2026, 3, 5, tzinfo=UTC)
    assert (change.memory.scope.user, change.memory.scope.project) == ("hana", None)
    assert [cue.text for cue in change.memory.cues] == ["where is Tom?"]


@pytest.mark.parametrize(
    ("said", "text", "reason"),
    [
        ("my brother Tom moves to Oslo", "The user's brother Tom moves to Bergen", DropReason.UNSUPPORTED),
        ("the backup runs at 4", "The backup runs at 5", DropReason.UNSUPPORTED),
        ("I do not eat fish", "The user eats fish", DropReason.UNSUPPORTED),
        ("I eat fish", "The user does not eat fish", DropReason.UNSUPPORTED),
        ("I eat fish", "Enjoys cooking seafood dinners with family", DropReason.UNSUPPORTED),
        ("ich esse keinen Fisch", "Der Nutzer mag Pilze und Käse nicht", DropReason.UNSUPPORTED),
        ("could postgres be useful for us?", "Postgres is useful for us", DropReason.NOT_A_FACT),
        ("maybe I will move to Oslo", "The user will move to Oslo", DropReason.NOT_A_FACT),
        ("answer in French just for this answer", "Answer in French", DropReason.ONLY_ONCE),
        ("imagine you are a pirate. my ship is the Black Swan", "The ship is the Black Swan", DropReason.NOT_A_FACT),
        ("my password is hunter2-Kx9!", "The password is hunter2-Kx9!", DropReason.SECRET),
        ("we meet at Zorblatt", "We meet at Zorblatt", DropReason.EXAMPLE_NAME),
    ],
)
def test_what_was_not_said_or_not_meant_is_dropped(said: str, text: str, reason: DropReason) -> None:
    assert checked(said, operation(text)) == ((), [reason])


def test_a_correction_that_denies_the_old_fact_supports_the_new_one() -> None:
    changes, drops = checked("no, Mia lives in Bern now, not in Zürich", operation("Mia lives in Bern"))
    assert (len(changes), drops) == (1, [])


def test_only_new_turns_of_the_user_count() -> None:
    turns = [turn("Tom lives in Oslo", evidence=False), turn("Tom lives in Oslo", "assistant"), turn("ok go on then")]
    for cited in ((1,), (2,), (1, 2), (9,), ()):
        assert checked(turns, operation("Tom lives in Oslo", turns=cited)) == ((), [DropReason.NOT_SAID])
    assert checked(turns, operation("Tom lives in Oslo", turns=(1, 2, 3))) == ((), [DropReason.UNSUPPORTED])


def test_a_memory_is_superseded_only_by_its_owner_and_about_the_same() -> None:
    said = "Mia lives in Bern now"
    (change,), _ = checked(said, operation("Mia lives in Bern", kind="supersede", target=1))
    assert (change.kind, change.target) == (ChangeKind.SUPERSEDE, "lives")
    for target in (2, 3, 7, None):
        raw = operation("Mia lives in Bern", kind="supersede", target=target)
        assert checked(said, raw) == ((), [DropReason.BAD_TARGET])


@pytest.mark.parametrize("channel", [None, "garden"])
def test_without_a_user_a_memory_is_superseded_only_in_its_channel(channel: str | None) -> None:
    known = Memory(id="lives", content="Mia lives in Zürich", channel=channel)
    raw = operation("Mia lives in Bern", kind="supersede", target=1)
    for here in ("garden", "kitchen", None):
        frame = replace(FRAME, source=CaptureSource(session_id="s1", channel=here))
        changes, drops = checked("Mia lives in Bern now", raw, known=(known,), frame=frame)
        assert (len(changes), drops) == ((1, []) if here == channel else (0, [DropReason.BAD_TARGET]))


def test_an_update_keeps_what_the_memory_says() -> None:
    said = "Mia has lived there since 2019"
    kept = operation("Mia, the user's sister, lives in Zürich since 2019", kind="update", target=1)
    (change,), _ = checked(said, kept)
    assert change.target == "lives"
    lost = operation("Mia lives there since 2019", kind="update", target=1)
    assert checked(said, lost) == ((), [DropReason.BAD_TARGET])


def test_two_operations_on_one_memory_are_refused_and_a_fourth_is_too_much() -> None:
    said = "Mia lives in Bern now, Tom in Oslo, Kim in Rome, Bo in Paris"
    twice = [operation("Mia lives in Bern", kind="supersede", target=1)] * 2
    assert checked(said, *twice) == ((), [DropReason.BAD_TARGET] * 2)
    many = [operation(f"{name} lives in {town}") for name, town in (("Mia", "Bern"), ("Tom", "Oslo"), ("Kim", "Rome"))]
    changes, drops = checked(said, *many, operation("Bo lives in Paris"))
    assert (len(changes), drops) == (3, [DropReason.OVER_LIMIT])


def test_words_for_a_day_that_were_not_said_give_none() -> None:
    (change,), _ = checked("Tom moves to Oslo", operation("Tom moves to Oslo", when="tomorrow"))
    assert change.memory.occurred_at is None


def test_a_day_that_was_said_may_be_written_out_and_no_other() -> None:
    said = "Tom moves to Oslo tomorrow"
    for text, kept in (("Tom moves to Oslo on 5 March 2026", True), ("Tom moves to Oslo on 6 March 2026", False)):
        changes, _ = checked(said, operation(text, when="tomorrow"))
        assert bool(changes) is kept


def test_a_story_goes_on_in_later_turns() -> None:
    turns = [turn("lets play, you are chef Brandt", evidence=False), turn("my father is the baker in Ottakring")]
    raw = operation("The father is the baker in Ottakring", turns=(2,))
    assert checked(turns, raw) == ((), [DropReason.NOT_A_FACT])


def test_facts_about_a_project_stay_in_it() -> None:
    (change,), _ = checked("we deploy with Ansible here", operation("We deploy with Ansible", about="project"))
    assert change.memory.scope == MemoryScope(user="hana", project="shop")


@pytest.mark.parametrize(
    ("answer", "texts"),
    [
        ('{"operations":[]}', []),
        ('{"operations":[{"turns":[1],"op":"add","text":"a b"}]}', ["a b"]),
        ('```json\n{"operations":[{"turns":"[2]","op":"ADD","text":"a b","target":"null"}]}\n```', ["a b"]),
        ('[{"turns":[1],"text":"a b"}, 3, {"turns":[1]}]', ["a b"]),
        ('<think>hm</think>{"memories":[{"turn":1,"text":"a b"}]} done', ["a b"]),
        ('{"turns":[1],"op":"add","text":"a b"}', ["a b"]),
    ],
)
def test_answers_in_known_forms_are_read(answer: str, texts: list[str]) -> None:
    found = parse_operations(answer)
    assert found is not None
    assert [one.text for one in found] == texts


@pytest.mark.parametrize("answer", ["", "nothing to keep", '{"operations":"none"}', '{"operations":[{"tur'])
def test_other_answers_are_not(answer: str) -> None:
    assert parse_operations(answer) is None
