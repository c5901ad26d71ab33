"""Thresholds of a search, measured for one embedder, and the file that keeps them."""

from dataclasses import dataclass, replace
from pathlib import Path

from worker.domain.memory import EmbedderProfile
from worker.settings.fitted import broken, read_table, write_table

COMMAND = "meeseeks calibrate"
FILE = "calibration.json"
FILE_KEYS = {
    "candidate_threshold": "floor",
    "query_threshold": "gate",
    "keyword": "keyword",
    "confident": "confident",
}
"""Fields of `Thresholds` by their keys in the file, whose format is older than the names."""


@dataclass(frozen=True, slots=True)
class Thresholds:
    """What `EmbedderProfile` says of relevance, as far as it can be measured."""

    candidate_threshold: float
    query_threshold: float
    keyword: float
    confident: float

    @classmethod
    def of(cls, profile: EmbedderProfile, keyword: float) -> "Thresholds":
        """Those of a profile; `keyword` where it has none."""
        query_threshold = profile.candidate_threshold if profile.query_threshold is None else profile.query_threshold
        return cls(
            profile.candidate_threshold,
            query_threshold,
            keyword if profile.keyword is None else profile.keyword,
            profile.confident,
        )

    def applied(self, profile: EmbedderProfile) -> EmbedderProfile:
        return replace(
            profile,
            candidate_threshold=self.candidate_threshold,
            query_threshold=self.query_threshold,
            keyword=self.keyword,
            confident=self.confident,
        )


def read_calibration(folder: Path, profile: EmbedderProfile) -> EmbedderProfile:
    """Return `profile` with the thresholds saved for it in `folder`, unchanged where there are none.

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
    """Save thresholds for an embedder beside those of others and return the file's path."""
    path = folder / FILE
    entry = {"embedder": profile.name} | {key: getattr(thresholds, name) for name, key in FILE_KEYS.items()}
    return write_table(path, read_table(path, COMMAND) | {profile.fingerprint: entry})
