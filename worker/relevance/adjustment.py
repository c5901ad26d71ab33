"""Read and write the adjustment of the relevance model that was fitted to a team's labels."""

from dataclasses import asdict
from pathlib import Path

from worker.settings.fitted import broken, read_table, update_table

from .model import Adjustment, RelevanceModel

FILE = "judge.json"
COMMAND = "meeseeks eval relevance fit"


def read_adjustment(folder: Path, relevance_model: RelevanceModel) -> Adjustment | None:
    """Return the adjustment saved in `folder` for this version of the model, if any.

    Raise `SettingsError` for a broken file.
    """
    values = read_table(folder / FILE, COMMAND).get(relevance_model.version)
    try:
        return None if values is None else Adjustment(**{name: float(value) for name, value in values.items()})
    except (ValueError, TypeError, AttributeError) as error:
        raise broken(folder / FILE, COMMAND, f"the entry of version {relevance_model.version} is damaged") from error


def fitted_to_another(folder: Path, relevance_model: RelevanceModel) -> str | None:
    """Return the version that the saved adjustment belongs to, if it is another one. Raise `SettingsError`."""
    versions = list(read_table(folder / FILE, COMMAND))
    return str(versions[-1]) if versions and relevance_model.version not in versions else None


def write_adjustment(folder: Path, relevance_model: RelevanceModel, adjustment: Adjustment) -> Path:
    """Save the adjustment, replacing any earlier one, and return the file's path."""
    return update_table(folder / FILE, COMMAND, lambda _: {relevance_model.version: asdict(adjustment)})
