"""Fit the need model: logistic regression by Newton's method, in the dual space of the tasks."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from worker.relevance.need import CELLS, CharacterRuns, Floats, Integers, NeedModel, weighed

STRENGTH = 3.0
"""Inverse regularization strength."""

STEPS = 8

Matrix = npt.NDArray[np.float64]


def rarity_of(runs: Sequence[CharacterRuns]) -> Floats:
    """Return the inverse document frequency of each cell."""
    holders = np.zeros(CELLS)
    for text in runs:
        holders[text.cells] += 1.0
    return (1.0 + np.log((1.0 + len(runs)) / (1.0 + holders))).astype(np.float32)


class HeadFitter:
    """Fit need models to subsets of the same tasks, given their unit vectors (rows) and character runs.

    Rarities of runs need no labels and are counted over all tasks.
    """

    def __init__(self, vectors: Floats, runs: Sequence[CharacterRuns]) -> None:
        self._vectors = vectors.astype(np.float64)
        self._rarity = rarity_of(runs)
        self._runs = [(text.cells, weighed(text, self._rarity).astype(np.float64)) for text in runs]
        self._gram = self._vectors @ self._vectors.T + self._products()

    def _products(self) -> Matrix:
        cells = np.concatenate([cells for cells, _ in self._runs])
        values = np.concatenate([values for _, values in self._runs])
        owner = np.repeat(np.arange(len(self._runs)), [len(cells) for cells, _ in self._runs])
        dense = np.zeros(CELLS)
        products = np.zeros((len(self._runs), len(self._runs)))
        for number, (own, weights) in enumerate(self._runs):
            dense[own] = weights
            products[number] = np.bincount(owner, values * dense[cells], len(self._runs))
            dense[own] = 0.0
        return products

    def fit(self, tasks: Integers, wanted: Floats) -> NeedModel:
        """Fit a need model to the labels `wanted` (0 or 1) of `tasks`."""
        dual, bias = _solved(self._gram[np.ix_(tasks, tasks)], wanted.astype(np.float64))
        by_run = np.zeros(CELLS)
        for weight, task in zip(dual, tasks, strict=True):
            cells, values = self._runs[task]
            by_run[cells] += weight * values
        vector = (dual @ self._vectors[tasks]).astype(np.float32)
        return NeedModel(vector, by_run.astype(np.float32), self._rarity, bias)


def _solved(gram: Matrix, wanted: Matrix) -> tuple[Matrix, float]:
    """Return the dual weights and the bias that maximize the regularized likelihood."""
    number = len(wanted)
    dual, bias = np.zeros(number), 0.0
    for _ in range(STEPS):
        score = gram @ dual + bias
        chance = 1.0 / (1.0 + np.exp(-score))
        bend = np.maximum(chance * (1.0 - chance), 1e-6)
        target = score + (wanted - chance) / bend
        curve = gram + np.diag(1.0 / (STRENGTH * bend))
        aim, ones = np.linalg.solve(curve, np.stack([target, np.ones(number)], axis=1)).T
        bias = float(aim.sum() / ones.sum())
        dual = aim - bias * ones
    return dual, bias
