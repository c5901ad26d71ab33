"""What a relevance model is worth, on worlds that it never saw: tables as Markdown and charts."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from worker.domain.kinds import RelevanceProfile
from worker.relevance.model import Threshold
from worker.relevance.selector import BESIDE_THE_POINT
from worker.relevance.text_features import UNSPACED_SCRIPTS, foreign
from worker.tuning.relevance_measures import share_of_pairs

from .agreement import Agreement
from .charts import category_chart, curve_chart, reliability, reliability_chart, tradeoff_chart
from .choosing import (
    WANTED,
    Choice,
    Measures,
    best_of,
    by_category,
    chosen,
    counts,
    measures_of,
    ranks,
    threshold_for,
    unseen_choice,
)
from .curve import Step
from .fitting import folds, rows_of
from .making import PARTS, Outcome
from .table import Floats, Integers
from .variants import SEPARATOR

NAME = "relevance-results.md"
NOTE = "<!-- Made by `python -m training`; edit the code instead. -->\n"
CLEANS = (0.995, 0.99, 0.98, 0.97, 0.95, 0.9, 0.85, 0.8, 0.7, 0.6)
FIRST = (3, 5, 8, 12, 20)
MOST_EXAMPLES = 8
SHOWN_CHARS = 150
FIRST_TASKS = 50
"""Tasks that a world was written with; those from `t51` on were added where a relevance model of such worlds erred."""


def write_report(outcome: Outcome, steps: Sequence[Step], second: Agreement, docs: Path) -> None:
    """The page of results and its charts, in the folder of the documentation."""
    data, images = outcome.data, docs / "img"
    likely = (1.0 / (1.0 + np.exp(-outcome.scores))).astype(np.float32)
    rows = rows_of(data, outcome.fitting)
    points = reliability(likely[rows], data.rows.relevant[rows])
    choice, _ = _chosen(outcome, outcome.scores, RelevanceProfile.BALANCED)
    categories = by_category(data, choice)
    curve_chart(steps, images / "judge-learning-curve.png")
    tradeoff_chart(_lines(outcome, "precision"), "precision", images / "judge-precision-recall.png")
    tradeoff_chart(_lines(outcome, "clean"), "clean turns", images / "judge-clean-recall.png")
    reliability_chart(points, images / "judge-reliability.png")
    category_chart(categories, images / "judge-categories.png")
    parts = (
        NOTE,
        "# Results of the relevance model\n",
        _introduction(outcome),
        _second_reader(second),
        "## At its points\n",
        _points_table(outcome),
        "## Against the scores of the search\n",
        _against(outcome),
        (
            "![precision and recall](img/relevance-precision-recall.png)\n\n"
            "![clean turns](img/relevance-clean-recall.png)\n"
        ),
        "## Young stores and plain notes\n",
        _variants(outcome),
        "## As an order for a model\n",
        _order(outcome),
        "## By category\n",
        _categories_table(categories),
        "![categories](img/relevance-categories.png)\n",
        "## By writing\n",
        _writings_table(outcome, choice),
        "## By language of the message\n",
        _languages_table(outcome, choice),
        "## Learning curve\n",
        _curve_table(steps),
        "![learning curve](img/relevance-learning-curve.png)\n",
        "## Calibration\n",
        _table(("probability", "relevant", "candidates"), [(f"{a:.3f}", f"{b:.3f}", str(c)) for a, b, c in points]),
        "![reliability](img/relevance-reliability.png)\n",
        "## Where it fails\n",
        _losses_table(outcome, choice),
        _examples(outcome, choice),
    )
    (docs / NAME).write_text("\n".join(parts), encoding="utf-8")


def _introduction(outcome: Outcome) -> str:
    data = outcome.data
    pool = data.rows.essential.sum() / data.tasks.essential.sum()
    return (
        f"{len(data.worlds)} labelled worlds with {len(data.cases)} tasks. The {outcome.made.worlds} worlds of "
        f"`training/worlds` are scored in {PARTS} parts, each by a model that was fitted to the other parts; the "
        f"{len(data.worlds) - outcome.made.worlds} worlds of `prompts/cases` by the model that ships, which never saw "
        "them. Thresholds are taken from other worlds than those that are measured. Intervals hold 95 of 100 draws of "
        f"worlds. {pool:.1%} of the essential memories are among the candidates at all.\n"
    )


def _second_reader(found: Agreement) -> str:
    return (
        f"Somebody who saw the memories and tasks of {found.worlds} worlds but no labels labelled {found.tasks} tasks "
        f"anew: precision {found.precision:.2f}, recall of essential {found.recall:.2f}, clean turns {found.clean:.2f} "
        f"measured like a model; Cohen's kappa {found.kappa:.2f}. That is about the most that any judge can reach.\n"
    )


def parts_of(outcome: Outcome) -> Integers:
    """By world the part that its thresholds do not come from; those that were not fitted to are one."""
    fitting = outcome.fitting
    parts = np.full(len(fitting), PARTS)
    parts[fitting] = folds(int(fitting.sum()), PARTS, 1)
    return parts


def _chosen(outcome: Outcome, scores: Floats, point: RelevanceProfile) -> tuple[Choice, object]:
    return unseen_choice(outcome.data, scores, parts_of(outcome), *WANTED[point])


def _points_table(outcome: Outcome) -> str:
    rows = []
    for point in RelevanceProfile:
        choice, _ = _chosen(outcome, outcome.scores, point)
        counted = counts(outcome.data, choice)
        threshold = outcome.made.thresholds[point]
        for name, worlds in (("all", None), ("`prompts/cases`", np.flatnonzero(~outcome.fitting))):
            found = counted.measures(worlds)
            shown = [
                f"{getattr(found, key):.3f}" + (_interval(counted.interval(key)) if worlds is None else "")
                for key in ("precision", "recall", "clean", "forbidden")
            ]
            rows.append(
                (f"`{point}`, {name}", f"{threshold.opens:.2f}", f"{threshold.keeps:.2f}", *shown, f"{found.items:.2f}")
            )
    heads = ("point, worlds", "opens", "keeps", "precision", "recall of essential", "clean turns", "forbidden", "items")
    return _table(heads, rows)


def _interval(bounds: tuple[float, float]) -> str:
    return f" ({bounds[0]:.3f} to {bounds[1]:.3f})"


def _plain_scores(outcome: Outcome) -> Mapping[str, Floats]:
    """The relevance model and the scores that it has to beat."""
    data = outcome.data
    columns = {name: data.rows.table[:, data.columns.index(name)] for name in ("cosine", "relevance")}
    return {
        "judge": outcome.scores,
        "weighted fusion": columns["relevance"],
        "cosine": columns["cosine"],
    }


def _against(outcome: Outcome) -> str:
    """Every score with a threshold from other worlds that keeps 97 of 100 turns clean."""
    data, rows = outcome.data, []
    for name, scores in _plain_scores(outcome).items():
        choice, _ = unseen_choice(data, scores, parts_of(outcome), 0.97, 0.8 if name == "judge" else None)
        found = counts(data, choice).measures()
        tasks = share_of_pairs(data.tasks.needs, best_of(data, scores))
        rows.append(
            (
                name,
                f"{share_of_pairs(data.rows.relevant > 0, scores):.3f}",
                f"{tasks:.3f}",
                *(f"{getattr(found, key):.3f}" for key in ("precision", "recall", "clean", "forbidden")),
            )
        )
    return _table(("", "AUROC, candidates", "AUROC, tasks", "precision", "recall", "clean", "forbidden"), rows)


def _order(outcome: Outcome) -> str:
    """Essential memories among the first of either order, of all; and what is left of both once the model has taken
    out what is beside the point."""
    data, rows = outcome.data, []
    essential, all_of_them = data.rows.essential, data.tasks.essential.sum()
    found = data.rows.table[:, data.columns.index("score_rank")]
    inputs = ranks(data, outcome.scores)
    for number in FIRST:
        shares = [essential[order < number].sum() / all_of_them for order in (found, inputs)]
        rows.append((f"in the first {number}", *(f"{share:.3f}" for share in shares)))
    worth = outcome.scores >= np.log(BESIDE_THE_POINT / (1.0 - BESIDE_THE_POINT))
    left = f"{essential[worth].sum() / essential.sum():.3f} of the essential, {worth.mean():.3f} of all candidates"
    return (
        _table(("essential", "order of the search", "order of the relevance model"), rows)
        + f"\nA model is not shown candidates under a probability of {BESIDE_THE_POINT}: {left} are left.\n"
    )


KINDS = {
    "as written": "as written",
    "plain": "notes of text alone",
    "small": "small stores, of what their tasks are about",
    "tiny": "1 to 10 memories, asked everything",
    "holes": "half of what tasks want is gone",
}
"""What the report calls the worlds made of worlds, by the first word of their names."""


def _variants(outcome: Outcome) -> str:
    """The shipped thresholds on stores that were made of the worlds."""
    data, rows = outcome.whole, []
    kinds = np.array([case.world.partition(SEPARATOR)[2].split(" ")[0] or "as written" for case in data.cases])
    for kind, told in KINDS.items():
        part, places = data.only(kinds == kind)
        for point in RelevanceProfile:
            threshold = outcome.made.thresholds[point]
            opens, keeps = (float(np.log(chance / (1.0 - chance))) for chance in (threshold.opens, threshold.keeps))
            found = counts(part, chosen(part, outcome.whole_scores[places], Threshold(opens, keeps))).measures()
            shares = (f"{getattr(found, key):.3f}" for key in ("precision", "recall", "clean", "forbidden"))
            rows.append((told, f"`{point}`", str(len(part.cases)), *shares))
    heads = ("", "point", "tasks", "precision", "recall of essential", "clean turns", "forbidden")
    told = "Stores made of the worlds, again by judges that never saw those; with the thresholds that ship.\n\n"
    return told + _table(heads, rows)


def _lines(outcome: Outcome, up: str) -> dict[str, tuple[list[float], list[float]]]:
    """One threshold for everything, moved; all worlds together."""
    data = outcome.data
    every = np.ones(len(data.worlds), dtype=bool)
    lines = {}
    for name, scores in _plain_scores(outcome).items():
        found = [
            counts(data, chosen(data, scores, threshold_for(data, scores, every, clean, None))).measures()
            for clean in CLEANS
        ]
        lines[name] = ([one.recall for one in found], [getattr(one, up) for one in found])
    return lines


def _categories_table(found: Mapping[str, Measures]) -> str:
    rows = [
        (
            name,
            f"{one.precision:.3f}",
            f"{one.recall:.3f}",
            f"{one.clean:.3f}",
            f"{one.forbidden:.3f}",
            f"{one.items:.2f}",
        )
        for name, one in found.items()
    ]
    return _table(("category", "precision", "recall of essential", "clean turns", "forbidden", "items"), rows)


def _languages_table(outcome: Outcome, choice: Choice) -> str:
    """English, other languages in Latin script, and other scripts, told apart by function words and characters."""
    languages = [_language(case.labels.request.message) for case in outcome.data.cases]
    return _groups_table(outcome, choice, languages, ("English", "unclear", "other, Latin script", "other script"))


def _writings_table(outcome: Outcome, choice: Choice) -> str:
    """The tasks that worlds began with, those that were added where a model had erred, and `prompts/cases`."""
    data, names = outcome.data, (f"the first {FIRST_TASKS} of each world", "added where it erred", "`prompts/cases`")
    fitted = outcome.fitting[data.tasks.world].tolist()
    writings = [
        names[is_added(case.labels.key)] if mine else names[2] for case, mine in zip(data.cases, fitted, strict=True)
    ]
    return _groups_table(outcome, choice, writings, names)


def is_added(key: str) -> bool:
    """Whether a task is one of those that came later; worlds with ids of another kind have none."""
    number = key.removeprefix("t")
    return number.isdecimal() and int(number) > FIRST_TASKS


def _groups_table(outcome: Outcome, choice: Choice, groups: Sequence[str], names: Sequence[str]) -> str:
    """The measures of each group of tasks, and how much of the essential is among the candidates at all."""
    data, rows = outcome.data, []
    for name in names:
        mine = np.array([group == name for group in groups])
        found = measures_of(data, choice, mine)
        pool = data.rows.essential[mine[data.rows.task]].sum() / max(1, data.tasks.essential[mine].sum())
        shares = (pool, found.precision, found.recall, found.clean, found.forbidden)
        rows.append((name, str(int(mine.sum())), *(f"{share:.3f}" for share in shares)))
    heads = ("", "tasks", "essential in the pool", "precision", "recall of essential", "clean turns", "forbidden")
    return _table(heads, rows)


def _language(message: str) -> str:
    if UNSPACED_SCRIPTS.search(message):
        return "other script"
    if not message.isascii():
        return "other, Latin script"
    return "English" if foreign(message) < 0.85 else "unclear"


def _curve_table(steps: Sequence[Step]) -> str:
    rows = [
        (
            str(step.worlds),
            *(f"{getattr(step, key):.3f}" for key in ("candidates", "tasks", "precision", "recall", "clean")),
        )
        for step in steps
    ]
    return _table(("worlds", "AUROC, candidates", "AUROC, tasks", "precision", "recall", "clean turns"), rows)


def _losses_table(outcome: Outcome, choice: Choice) -> str:
    """What becomes of the essential memories, by the number of words that they share with the message."""
    data = outcome.data
    shared = data.rows.table[:, data.columns.index("m_shared")]
    opened = np.zeros(len(data.cases), dtype=bool)
    opened[data.rows.task[choice]] = True
    closed, total = ~opened[data.rows.task], int(data.tasks.essential.sum())
    groups = {"no word": shared == 0, "one": shared == 1, "two and more": shared > 1, "all candidates": shared >= 0}
    rows = []
    for name, flags in groups.items():
        mine = data.rows.essential & flags
        fates = (choice, closed & ~choice, ~closed & ~choice)
        shares = (mine.sum() / total, *((mine & fate).sum() / max(1, mine.sum()) for fate in fates))
        rows.append((name, *(f"{share:.3f}" for share in shares)))
    heads = ("words shared", "of the essential", "injected", "nothing is injected", "others are injected")
    return _table(heads, rows)


def _examples(outcome: Outcome, choice: Choice) -> str:
    """Wrong injections and missed memories of the worlds in `prompts/cases`, the surest first."""
    data = outcome.data
    ours = ~outcome.fitting[data.tasks.world[data.rows.task]]
    wrong = np.flatnonzero(ours & choice & (data.rows.relevant == 0))
    missed = np.flatnonzero(ours & ~choice & data.rows.essential)
    wrong, missed = wrong[np.argsort(-outcome.scores[wrong])], missed[np.argsort(outcome.scores[missed])]
    told = [
        "Injected though not relevant, the surest first:\n",
        *(_example(outcome, row) for row in wrong[:MOST_EXAMPLES]),
    ]
    told += [
        "\nEssential and missed, the least likely first:\n",
        *(_example(outcome, row) for row in missed[:MOST_EXAMPLES]),
    ]
    return "\n".join(told) + "\n"


def _example(outcome: Outcome, row: int) -> str:
    data = outcome.data
    case = data.cases[data.rows.task[row]]
    assert case.inputs is not None
    place = row - int(np.searchsorted(data.rows.task, data.rows.task[row]))
    chance = 1.0 / (1.0 + float(np.exp(-outcome.scores[row])))
    memory = case.inputs.candidates[place].memory.content
    return f"- {chance:.2f} ({case.labels.category}) {_shown(case.labels.request.message)} — *{_shown(memory)}*"


def _shown(text: str) -> str:
    line = " ".join(text.split()).replace("*", "").replace("<", "‹").replace(">", "›").replace("|", "/")
    return line if len(line) <= SHOWN_CHARS else f"{line[:SHOWN_CHARS]}…"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"
