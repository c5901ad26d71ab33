"""Labelled conversations are well formed, and what capture finds in them is measured as their page says."""

import json
from collections import Counter
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from worker.domain.capture import ChangeKind
from worker.domain.errors import SettingsError
from worker.triage.prompt_files import default_prompts_dir
from worker.tuning.capture_cases import (
    CaptureCase,
    CaptureRun,
    CaseKind,
    FoundOperation,
    LabelledOperation,
    Ratio,
    measures,
    read_capture_cases,
)
from worker.tuning.capture_noise import with_chatter

CASES = default_prompts_dir() / "cases" / "capture"

MOVED: dict[str, Any] = {
    "op": "supersede",
    "target": "m1",
    "text": "Mia lives in Bern",
    "says": [["mia"], ["bern", "Berne"]],
    "turns": [0],
    "date": "2026-03-06",
}
MOVE: dict[str, Any] = {
    "id": "x-1",
    "language": "en",
    "kind": "update",
    "turns": [{"role": "user", "text": "Mia moved to Bern on Friday"}, {"role": "assistant", "text": "Nice"}],
    "memories": [{"id": "m1", "text": "Mia lives in Zurich"}, {"id": "m2", "text": "Mia likes tea"}],
    "must": [MOVED],
    "must_not": ["zurich"],
}
NOTHING = {"id": "x-2", "language": "en", "kind": "nothing", "turns": [{"role": "user", "text": "thanks"}]}


def case(raw: dict[str, Any], **changes: Any) -> CaptureCase:
    return CaptureCase.model_validate(raw | changes)


def found(text: str, op: ChangeKind = ChangeKind.SUPERSEDE, target: str | None = "m1", day: str | None = None) -> Any:
    return FoundOperation(op, text, target, date.fromisoformat(day) if day else None)


def perfect(label: LabelledOperation) -> FoundOperation:
    return FoundOperation(label.op, label.text, label.target, date.fromisoformat(label.date) if label.date else None)


def test_shipped_conversations_are_of_all_kinds_and_languages() -> None:
    cases = read_capture_cases(CASES)
    kinds, languages = Counter(one.kind for one in cases), Counter(one.language for one in cases)
    assert len({one.id for one in cases}) == len(cases) >= 150
    assert kinds[CaseKind.NOTHING] >= 30 <= kinds[CaseKind.UPDATE]
    assert kinds[CaseKind.HOSTILE] >= 20
    assert len(languages) >= 4
    assert all(not one.must for one in cases if one.kind is CaseKind.NOTHING)


def test_labels_of_shipped_conversations_hold_what_they_say() -> None:
    for one in read_capture_cases(CASES):
        for label in (*one.must, *one.may):
            assert label.is_said_by(label.text), (one.id, label.says)
            assert not any(text.casefold() in label.text.casefold() for text in one.must_not), one.id


def test_the_labels_themselves_get_full_marks() -> None:
    runs = [CaptureRun(one, tuple(map(perfect, one.must))) for one in read_capture_cases(CASES)]
    exact = measures(runs)
    assert (exact.precision.value, exact.recall.value, exact.left_alone.value) == (1.0, 1.0, 1.0)
    assert (exact.duplicates, exact.wrong_dates, exact.missing_dates, exact.unsupported, exact.leaks) == (0, 0, 0, 0, 0)


@pytest.mark.parametrize(
    ("operation", "precision", "lenient", "recall", "other"),
    [
        (found("Mia lives in BERN", day="2026-03-06"), 1, 1, 1, {}),
        (found("Mia lives in Bern"), 1, 1, 1, {"missing_dates": 1}),
        (found("Mia lives in Bern", day="2026-03-07"), 0, 1, 1, {"wrong_dates": 1}),
        (found("Mia lives in Bern", target="m2"), 0, 1, 0, {"missing_dates": 1}),
        (found("Mia lives in Bern", ChangeKind.ADD, None), 0, 1, 0, {"missing_dates": 1}),
        (found("Mia left Zurich"), 0, 0, 0, {"unsupported": 1, "leaks": 1}),
    ],
)
def test_an_operation_is_compared_with_its_label(
    operation: FoundOperation, precision: int, lenient: int, recall: int, other: dict[str, int]
) -> None:
    done = measures([CaptureRun(case(MOVE), (operation,))])
    assert (done.precision.hits, done.lenient.hits, done.recall.hits) == (precision, lenient, recall)
    counts = ("duplicates", "wrong_dates", "missing_dates", "unsupported", "leaks")
    assert {name: getattr(done, name) for name in counts} == dict.fromkeys(counts, 0) | other


def test_the_same_thing_twice_is_a_duplicate() -> None:
    again = found("Mia lives in Bern now")
    done = measures([CaptureRun(case(MOVE), (found("Mia lives in Bern"), again))])
    assert (done.precision.hits, done.precision.total, done.duplicates, done.unsupported) == (1, 2, 1, 0)


def test_what_is_accepted_counts_for_precision_only() -> None:
    accepted = case(MOVE, must=[], may=MOVE["must"])
    done = measures([CaptureRun(accepted, (found("Mia lives in Bern"),))])
    assert (done.precision.hits, done.recall.total) == (1, 0)


def test_nothing_is_left_alone_and_failures_and_drops_are_counted() -> None:
    runs = [
        CaptureRun(case(NOTHING), drops=("known", "known")),
        CaptureRun(case(NOTHING), (found("thanks", ChangeKind.ADD, None),)),
        CaptureRun(case(MOVE), near=frozenset({"m1"}), calls=1, tokens=90),
        CaptureRun(case(MOVE), calls=1, failed="timeout"),
    ]
    done = measures(runs)
    assert (done.left_alone, done.near) == (Ratio(1, 2), Ratio(1, 1))
    assert (done.failed, done.calls, done.tokens, done.user_turns) == (1, 2, 90, 4)
    assert (done.calls_per_session.value, done.tokens_per_session.value) == (0.5, 22.5)
    assert 0.0 == done.tokens_per_session.low < 22.5 < done.tokens_per_session.high
    assert done.drops == {"known": 2}


def test_faults_are_shares_with_intervals() -> None:
    good, again = found("Mia lives in Bern", day="2026-03-06"), found("Mia lives in Bern now", day="2026-03-07")
    bad = found("Mia left Zurich", day="2026-03-08")
    done = measures([CaptureRun(case(MOVE), (good, again, bad)), CaptureRun(case(NOTHING))])
    assert (done.duplicates_per_turn, done.unsupported_of_all) == (Ratio(1, 2), Ratio(1, 3))
    assert (done.wrong_of_dated, done.leaked) == (Ratio(0, 3), Ratio(1, 1))


def test_chatter_is_mixed_in_and_labels_still_name_their_turns() -> None:
    other = case(NOTHING, id="x-3", turns=[{"role": "user", "text": "why?"}, {"role": "assistant", "text": "so"}])
    known = case(NOTHING, id="x-4", memories=MOVE["memories"])
    noisy = with_chatter(case(MOVE), [case(MOVE), other, known, case(NOTHING, language="de")], 10)
    assert (len(noisy.turns), noisy.turns[noisy.must[0].turns[0]].text) == (22, "Mia moved to Bern on Friday")
    assert {turn.text for turn in noisy.turns[:10]} == {"why?", "so"}
    assert len({turn.id for turn in noisy.turns[:10]}) == 10
    with pytest.raises(SettingsError, match="kind `nothing`"):
        with_chatter(case(MOVE), [case(MOVE)], 10)


def test_intervals_hold_the_value() -> None:
    low, high = Ratio(48, 50).interval
    assert (round(low, 2), round(high, 2)) == (0.87, 0.99)
    assert Ratio(0, 0).interval == (0.0, 0.0)
    assert Ratio(5, 5).interval[1] == 1.0


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"must": [MOVED | {"target": "m9"}]}, "wrong target 'm9'"),
        ({"must": [MOVED | {"op": "add"}]}, "wrong target 'm1'"),
        ({"must": [MOVED | {"turns": [1]}]}, "user's own turns"),
        ({"must": [MOVED | {"turns": [7]}]}, "user's own turns"),
        ({"kind": "other"}, "kind"),
    ],
)
def test_wrong_labels_are_refused_with_their_line(tmp_path: Path, change: dict[str, Any], fault: str) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text("\n".join(json.dumps(one) for one in (NOTHING, MOVE | change)), encoding="utf-8")
    with pytest.raises(SettingsError, match="line 2") as raised:
        read_capture_cases(tmp_path)
    assert fault in str(raised.value)


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="no labelled conversations"):
        read_capture_cases(tmp_path)
