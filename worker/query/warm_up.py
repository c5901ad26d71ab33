"""Loading of language data ahead of the first request."""

from worker.domain.kinds import Language
from worker.text.lexicon import lexicon

from .time_expressions import preload_rules


def warm_up() -> None:
    """Load the phrases and time expressions of all languages, which takes some tenths of a second."""
    lexicon(tuple(Language))
    preload_rules(tuple(Language))
