"""Read and write the search thresholds measured for an embedder."""

from dataclasses import asdict, dataclass, replace
from pathlib import Path

from worker.domain.memory import EmbedderProfile
from worker.settings.fitted import broken, read_table, update_table

COMMAND = "meeseeks eval calibrate"
FILE = "calibration.json"
FILE_KEYS = {
    "candidate_threshold": "floor",
    "query_threshold": "gate",
    "keyword": "keyword",
    "confident": "confident",
}
"""Keys in the file by field of `Thresholds`; the file keeps former names."""


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The measurable thresholds of an `EmbedderProfile`."""

    candidate_threshold: float
    query_threshold: float
    keyword: float
    confident: float

    @classmethod
    def of(cls, profile: EmbedderProfile, keyword: float) -> "Thresholds":
        """Return a profile's thresholds; `keyword` is used if it has none."""
        query_threshold = profile.candidate_threshold if profile.query_threshold is None else profile.query_threshold
        keyword = keyword if profile.keyword is None else profile.keyword
        return cls(profile.candidate_threshold, query_threshold, keyword, profile.confident)

    def applied(self, profile: EmbedderProfile) -> EmbedderProfile:
        """Return `profile` with these thresholds."""
        return replace(profile, **asdict(self))


def without_thresholds(profile: EmbedderProfile) -> EmbedderProfile:
    """Return `profile` for a recall whose candidates a relevance model judges.

    The thresholds kept one in eight answers from it, mostly to short, misspelt or foreign messages.
    """
    return replace(profile, candidate_threshold=0.0, query_threshold=None)


def read_calibration(folder: Path, profile: EmbedderProfile) -> EmbedderProfile:
    """Return `profile` with the thresholds saved for it in `folder`, if any.

    Raise `SettingsError` for a broken file.
    """
    path = folder / FILE
    saved = read_table(path, COMMAND).get(profile.fingerprint)
    if saved is None:
        return profile
    try:
        return Thresholds(**{name: float(saved[key]) for name, key in FILE_KEYS.items()}).applied(profile)
    except (KeyError, TypeError, ValueError) as error:
        raise broken(path, COMMAND, f"the thresholds of {profile.name} are damaged") from error


def write_calibration(folder: Path, profile: EmbedderProfile, thresholds: Thresholds) -> Path:
    """Save thresholds for an embedder and return the file's path."""
    entry = {"embedder": profile.name} | {key: getattr(thresholds, name) for name, key in FILE_KEYS.items()}
    return update_table(folder / FILE, COMMAND, lambda table: table | {profile.fingerprint: entry})
