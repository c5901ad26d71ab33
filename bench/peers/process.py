"""One system in a process of its own: `python -m bench.peers.process KIND fill|search FOLDER MOST SECONDS`.

It prints a line of JSON; before it, `search` prints `ready` after its first answer. Beside the system, it needs only
numpy.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

from .exchange import BATCH, QUERIES, READY, TEXTS, Texts, load, load_sparse, resident_mb
from .systems import PEERS, Known, System


def fill(system: System, given: Texts, seconds: float) -> dict[str, Any]:
    """Store the texts; stop after `seconds`."""
    start, stored = time.perf_counter(), 0
    while stored < len(given.keys) and time.perf_counter() - start < seconds:
        part = slice(stored, stored + BATCH)
        system.add(given.keys[part], given.texts[part])
        stored += len(given.keys[part])
    return {"seconds": time.perf_counter() - start, "stored": stored, "resident_mb": resident_mb()}


def search(system: System, asked: Texts, most: int) -> dict[str, Any]:
    """Search for every text, after one search that is not measured."""
    system.search(asked.texts[0], most)
    print(READY, flush=True)
    found, spent = [], []
    for text in asked.texts:
        start = time.perf_counter()
        found.append(system.search(text, most))
        spent.append((time.perf_counter() - start) * 1000)
    return {"found": found, "spent": spent, "resident_mb": resident_mb()}


def main() -> None:
    kind, phase, place, most, seconds = sys.argv[1:]
    folder, peer = Path(place), PEERS[kind]
    given, asked = load(folder, TEXTS), load(folder, QUERIES)
    pairs = (pair for texts in (given, asked) for pair in zip(texts.texts, texts.vectors, strict=True))
    known = Known(dict(pairs), load_sparse(folder) if peer.keywords else {})
    kept = folder / kind
    kept.mkdir(exist_ok=True)
    with peer.open(kept, known) as system:
        if phase == "fill" or peer.volatile:
            done = fill(system, given, float(seconds))
        if phase == "search":
            done = search(system, asked, int(most))
    print(json.dumps(done), flush=True)


if __name__ == "__main__":
    main()
