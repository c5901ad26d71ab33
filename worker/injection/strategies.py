"""Decide which selectors a request's settings ask for, among those that are available."""

from collections.abc import Callable
from dataclasses import dataclass

from hooks.contract import Mode
from worker.ports.models import Selector
from worker.settings.injection import InjectionConfig, Strategy


@dataclass(frozen=True, slots=True)
class SelectionPlan:
    """`settles` chooses at once; `improves`, if set, replaces that choice when it is done in time.

    `note` tells the receipt why this is not what the settings ask for.
    """

    settles: Selector
    improves: Selector | None = None
    note: str | None = None


class Strategies:
    """The available selectors. `usual` returns what `auto` means for a request, `None` if no model is configured."""

    def __init__(
        self,
        search_only: Selector,
        *,
        llm: Selector | None = None,
        decision: Selector | None = None,
        relevance_model: Selector | None = None,
        usual: Callable[[InjectionConfig], Strategy | None] | None = None,
    ) -> None:
        self._search_only = search_only
        self._relevance_model = relevance_model
        self._models = {Strategy.LLM: llm, Strategy.DECISION: decision}
        self._usual = usual or (lambda _: Strategy.LLM if llm else Strategy.DECISION if decision else None)

    def plan(self, config: InjectionConfig, mode: Mode = Mode.ALWAYS) -> SelectionPlan:
        """Return who chooses under these settings; in deterministic mode, no model of any kind."""
        if mode is Mode.DETERMINISTIC or config.strategy is Strategy.DETERMINISTIC:
            return SelectionPlan(self._search_only)
        if config.strategy is Strategy.RELEVANCE:
            missing = "strategy = relevance: no relevance model is installed, so search scores decide"
            return SelectionPlan(self._without_model, note=None if self._relevance_model else missing)
        if config.strategy is Strategy.AUTO:
            return self._with_model(self._usual(config), config)
        missing = f"strategy = {config.strategy}: no model is configured, so none was asked"
        plan = self._with_model(config.strategy, config)
        return plan if plan.improves else SelectionPlan(plan.settles, note=missing)

    def in_words(self, config: InjectionConfig, model: str | None) -> str:
        """Return in words what chooses under these settings; `model` is the name of the configured model."""
        plan = self.plan(config, config.mode)
        if plan.improves is not None and model is not None:
            return model
        return "the search score" if plan.settles is self._search_only else "the relevance model"

    @property
    def _without_model(self) -> Selector:
        return self._relevance_model or self._search_only

    def _with_model(self, strategy: Strategy | None, config: InjectionConfig) -> SelectionPlan:
        configured = strategy is not None and self._usual(config) is not None
        return SelectionPlan(self._without_model, self._models.get(strategy) if strategy and configured else None)
