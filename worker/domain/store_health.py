"""The state of a memory store."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StoreHealth:
    """The state of a store; `fault` says why the configured recipes do not match its vectors.

    `bare` counts memories without a dense vector in a store that has dense vectors.
    """

    engine: str
    points: int
    dense_usable: bool
    fault: str | None = None
    notes: tuple[str, ...] = ()
    bare: int = 0
