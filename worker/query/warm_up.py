"""Loading of language data ahead of the first request."""

from worker.domain.kinds import Language
from worker.text.lexicon import lexicon
from worker.text.token_rules import load_rules

from .time_expressions import preload_rules


def warm_up() -> None:
    """Load phrases and time expressions of all languages and rules for secrets; takes some tenths of a second."""
    load_rules()
    lexicon(tuple(Language))
    preload_rules(tuple(Language))
