"""Who judges a request: what its settings ask for, as far as it is there."""

from collections.abc import Callable
from dataclasses import dataclass

from hooks.contract import Mode
from worker.ports.models import Selector
from worker.settings.injection import InjectionConfig, Strategy


@dataclass(frozen=True, slots=True)
class SelectionPlan:
    """`settles` makes the choice that stands at once, `improves` the one that replaces it where it comes in time.

    `note` says in the receipt why this is not what the settings ask for.
    """

    settles: Selector
    improves: Selector | None = None
    note: str | None = None


class Strategies:
    """The selectors that are there. `deterministic` always is; `usual` says what `auto` means for a request, `None`
    that no model is configured."""

    def __init__(
        self,
        deterministic: Selector,
        *,
        llm: Selector | None = None,
        decision: Selector | None = None,
        relevance_model: Selector | None = None,
        usual: Callable[[InjectionConfig], Strategy | None] | None = None,
    ) -> None:
        self._deterministic = deterministic
        self._relevance_model = relevance_model
        self._models = {Strategy.LLM: llm, Strategy.DECISION: decision}
        self._usual = usual or (lambda _: Strategy.LLM if llm else Strategy.DECISION if decision else None)

    def plan(self, config: InjectionConfig, mode: Mode = Mode.ALWAYS) -> SelectionPlan:
        """Who chooses for a request with these settings; no model of any kind where its mode is deterministic."""
        if mode is Mode.DETERMINISTIC:
            return SelectionPlan(self._deterministic)
        if config.strategy in (Strategy.LLM, Strategy.DECISION):
            return self._by_model(config.strategy, config, wanted=True)
        if config.strategy is Strategy.RELEVANCE:
            note = (
                None if self._relevance_model else "strategy = judge: there is none here, so the search's scores decide"
            )
            return SelectionPlan(self._relevance_model or self._deterministic, note=note)
        if config.strategy is Strategy.DETERMINISTIC:
            return SelectionPlan(self._deterministic)
        return self._by_model(self._usual(config), config, wanted=False)

    def _by_model(self, strategy: Strategy | None, config: InjectionConfig, *, wanted: bool) -> SelectionPlan:
        settles = self._relevance_model or self._deterministic
        selector = self._models.get(strategy) if strategy and self._usual(config) else None
        if selector is None:
            note = f"strategy = {strategy}: no model is configured, so none was asked" if wanted else None
            return SelectionPlan(settles, note=note)
        return SelectionPlan(settles, selector)
