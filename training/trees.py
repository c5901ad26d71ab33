"""Fit boosted trees with LightGBM; the same rows, seed and version give the same trees.

Split limits are drawn at random (Geurts, Ernst and Wehenkel 2006, "Extremely randomized trees"), which generalizes
better to unseen worlds.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import lightgbm
import numpy as np

from worker.relevance.trees import Floats, Trees

BITS = 14
"""Significant bits of a value, few enough that search scores are the same in every run."""


@dataclass(frozen=True, slots=True)
class Growth:
    """How to grow trees. `columns` and `rows` are the shares sampled for each tree; `prior` regularizes the leaves."""

    trees: int = 700
    depth: int = 5
    rate: float = 0.03
    columns: float = 0.35
    rows: float = 0.5
    prior: float = 8.0
    smallest: int = 40
    seed: int = 0


def grow(
    rows: Floats, wanted: Floats, weights: Floats, growth: Growth, step: Callable[[], None] = lambda: None
) -> Trees:
    """Grow trees that predict the log odds of `wanted` (0 or 1); a leaf has at least `smallest` rows."""
    mean = float(np.average(wanted, weights=weights))
    start = float(np.log(mean / (1.0 - mean)))
    data = lightgbm.Dataset(_coarse(rows), wanted, weight=weights, init_score=np.full(len(rows), start))
    booster = lightgbm.train(_parameters(growth), data, growth.trees, callbacks=[lambda _: step()])
    grown = [_Levels(growth.depth).of(tree["tree_structure"]) for tree in booster.dump_model()["tree_info"]]
    columns, limits, leaves = (np.array(part) for part in zip(*grown, strict=True))
    return Trees(columns.astype(np.int32), limits.astype(np.float32), leaves.astype(np.float32), start)


def _parameters(growth: Growth) -> dict[str, Any]:
    return {
        "objective": "binary",
        "boost_from_average": False,
        "learning_rate": growth.rate,
        "max_depth": growth.depth,
        "num_leaves": 2**growth.depth,
        "min_data_in_leaf": growth.smallest,
        "lambda_l2": growth.prior,
        "feature_fraction": growth.columns,
        "bagging_fraction": growth.rows,
        "bagging_freq": 1,
        "extra_trees": True,
        "max_bin": 63,
        "seed": growth.seed,
        "deterministic": True,
        "force_col_wise": True,
        "use_missing": False,
        "num_threads": 0,  # as many as there are cores, which makes no difference to the trees
        "verbose": -1,
    }


def _coarse(values: Floats) -> Floats:
    """Round to `BITS` significant bits."""
    mantissas, exponents = np.frexp(values)
    rounded: Floats = np.ldexp(np.round(mantissas * 2.0**BITS) / 2.0**BITS, exponents).astype(np.float32)
    return rounded


class _Levels:
    """Lay out one of LightGBM's trees level by level; a branch that ends early repeats its leaf."""

    def __init__(self, depth: int) -> None:
        self._inner = 2**depth - 1

    def of(self, tree: dict[str, Any]) -> tuple[list[int], list[float], list[float]]:
        """Return the column and limit of each node, and the leaves."""
        self._columns = [tree.get("split_feature", 0)] * self._inner
        self._limits = [0.0] * self._inner
        self._leaves = [0.0] * (self._inner + 1)
        self._put(tree, 0)
        return self._columns, self._limits, self._leaves

    def _put(self, node: dict[str, Any], place: int) -> None:
        if place >= self._inner:
            self._leaves[place - self._inner] = node["leaf_value"]
            return
        if "leaf_value" not in node:
            self._columns[place], self._limits[place] = node["split_feature"], node["threshold"]
        self._put(node.get("left_child", node), 2 * place + 1)
        self._put(node.get("right_child", node), 2 * place + 2)
