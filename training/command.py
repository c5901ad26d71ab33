"""Fit the relevance model to the labelled worlds, write its files, and report how good it is.

Candidates come from the service's own recall. Each world is scored by a model that was fitted without it; the model
that is written is fitted to all worlds. This takes twenty minutes to an hour on two cores.
"""

import argparse
import os
import sys
from dataclasses import replace
from pathlib import Path

from rich.progress import Progress

from bench.progress import bar, make_progress
from worker.tuning.labelled_worlds import read_worlds

from .agreement import agreement, read_readings
from .fitting import Recipe
from .making import PARTS, Outcome, fitted_worlds, make
from .observing import observed, texts_of
from .pieces import make_table
from .report import write_report
from .shipping import write
from .table import numbered

ROOT = Path(__file__).parents[1]
WORLDS, STORES, CASES = ROOT / "training/worlds", ROOT / "training/stores", ROOT / "prompts/cases"
SECOND_READING = ROOT / "training/second-reading.jsonl"
RECIPE = Recipe()


def main() -> int:
    arguments = _arguments()
    recipe = replace(RECIPE, growth=replace(RECIPE.growth, seed=arguments.seed))
    with make_progress() as progress:
        outcome = _fitted(arguments, recipe, progress)
        digest = write(outcome.made, arguments.out)
        sys.stdout.write(f"{digest}  {arguments.out}\n")
        if arguments.docs is not None:
            second = agreement(read_worlds(arguments.worlds), read_readings(arguments.second_reading))
            write_report(outcome, second, arguments.docs)
            sys.stdout.write(f"report in {arguments.docs}\n")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m training", description=__doc__)
    parser.add_argument("--worlds", type=Path, default=WORLDS, help="labelled worlds to fit to")
    parser.add_argument("--stores", type=Path, default=STORES, help="labelled small stores to fit to")
    parser.add_argument("--cases", type=Path, default=CASES, help="labelled worlds used for measuring only")
    parser.add_argument("--second-reading", type=Path, default=SECOND_READING, help="labels by a second reader")
    parser.add_argument(
        "--out", type=Path, default=ROOT / "relevance/meeseeks_relevance", help="folder for the relevance model's files"
    )
    parser.add_argument("--docs", type=Path, default=None, help="documentation folder to write the report to")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="processes for recall")
    parser.add_argument("--seed", type=int, default=0, help="random seed")
    return parser.parse_args()


def _fitted(arguments: argparse.Namespace, recipe: Recipe, progress: Progress) -> Outcome:
    stores = read_worlds(arguments.stores, cues=True)
    fitting = [*read_worlds(arguments.worlds, cues=True), *stores]
    worlds = [*fitting, *read_worlds(arguments.cases, cues=True)]
    with bar(progress, "word pieces", 60) as advance:
        pieces = make_table(texts_of(fitting), advance)
    seen = observed(worlds, pieces, recipe.growth.seed, progress, arguments.processes)
    data = numbered(seen, {store.name for store in stores})
    fits = (PARTS + 1) * recipe.seeds
    with bar(progress, "trees", fits * recipe.growth.trees) as advance:
        return make(data, pieces, fitted_worlds(data.cases, [world.name for world in fitting]), recipe, PARTS, advance)
