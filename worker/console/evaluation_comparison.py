"""Two evaluations side by side: their measures, and the cases that became right or wrong. Pure."""

from collections.abc import Mapping, Sequence

from pydantic import BaseModel

from worker.ports.evaluations import EvaluationResult, EvaluationState

from .evaluation_words import NAMES, EvaluationRow, number_text, row_of

RECEIPT = "receipt-"
"""What ids of cases begin with that were labelled from a request."""


class ComparedMeasure(BaseModel):
    """A measure in both evaluations, and what the second has more."""

    name: str
    before: str
    after: str
    difference: str


class ChangedCase(BaseModel):
    """A case and its faults in both: missing memories and wrong ones. `request` is the one that it was made from."""

    name: str
    before: str
    after: str
    request: str | None


class EvaluationComparison(BaseModel):
    """Two evaluations, the older one first. `cases` counts those in both."""

    before: EvaluationRow
    after: EvaluationRow
    reports: tuple[str, str]
    warnings: list[str]
    rows: list[ComparedMeasure]
    cases: int
    became_wrong: list[ChangedCase]
    became_right: list[ChangedCase]
    changed: list[ChangedCase]


def comparison_of(states: Sequence[EvaluationState]) -> EvaluationComparison:
    """Compare two evaluations that have results."""
    before, after = sorted(states, key=lambda one: one.began)
    assert before.result is not None
    assert after.result is not None
    first, second = before.result, after.result
    both = {key: (first.faults[key], second.faults[key]) for key in first.faults if key in second.faults}
    different = {key: pair for key, pair in both.items() if pair[0] != pair[1]}
    return EvaluationComparison(
        before=row_of(before),
        after=row_of(after),
        reports=(first.report, second.report),
        warnings=_warnings(first, second, len(both)),
        rows=[
            _measure(name, first.measures[name].value, second.measures[name].value)
            for name in first.measures
            if name in second.measures
        ],
        cases=len(both),
        became_wrong=_cases({key: pair for key, pair in different.items() if pair[0] == 0}),
        became_right=_cases({key: pair for key, pair in different.items() if pair[1] == 0}),
        changed=_cases({key: pair for key, pair in different.items() if all(pair)}),
    )


def _warnings(first: EvaluationResult, second: EvaluationResult, both: int) -> list[str]:
    warnings = []
    if not (first.faults and second.faults):
        warnings.append("One of them was made by an earlier version, which did not keep its cases. Evaluate it again.")
    elif not both:
        warnings.append("They have no case in common, so their measures say nothing about each other.")
    elif first.faults.keys() != second.faults.keys():
        warnings.append("They have not all cases in common; the measures are of all cases of each.")
    changed = [name for name, known in first.worlds.items() if second.worlds.get(name, known) != known]
    if changed:
        warnings.append(f"The cases of {', '.join(sorted(changed))} were edited between the two.")
    return warnings


def _measure(name: str, before: float, after: float) -> ComparedMeasure:
    difference = after - before
    sign = "+" if difference > 0 else "−" if difference < 0 else ""
    return ComparedMeasure(
        name=NAMES.get(name, name),
        before=number_text(name, before),
        after=number_text(name, after),
        difference=f"{sign}{number_text(name, abs(difference))}",
    )


def _cases(pairs: Mapping[str, tuple[float, float]]) -> list[ChangedCase]:
    return [
        ChangedCase(name=key, before=f"{before:g}", after=f"{after:g}", request=_request(key))
        for key, (before, after) in sorted(pairs.items())
    ]


def _request(key: str) -> str | None:
    task = key.rpartition("/")[2]
    return task.removeprefix(RECEIPT) if task.startswith(RECEIPT) else None
