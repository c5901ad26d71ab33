"""Read one file in a process of its own, and print what is in it as lines of JSON; see `worker.transfer.apart`."""

import json
import resource
import sys
from pathlib import Path

from worker.domain.errors import MemoryRejected
from worker.domain.memory import Memory

from .entries import Rejected, Remark
from .fields import to_fields
from .formats import Format, Source

MAX_MEMORY_BYTES = 2 << 30
MAX_CPU_S = 600


def main() -> None:
    """Take path, format (or nothing) and whether to mask from the command line."""
    path, wanted, mask = sys.argv[1:4]
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (MAX_CPU_S, MAX_CPU_S))
    source = Source(Path(path), "the file", Format(wanted) if wanted else None)
    try:
        for entry in source.entries(mask=mask == "mask"):
            _print({"memory": to_fields(entry)} if isinstance(entry, Memory) else _told(entry))
    except (OSError, MemoryRejected) as error:
        _print(_told(Rejected(0, str(error))))
    _print({"end": True})
    sys.stdout.flush()


def _told(remark: Remark) -> dict[str, object]:
    return {"remark": type(remark).__name__, "line": remark.line, "reason": remark.reason}


def _print(value: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(value) + "\n")


if __name__ == "__main__":
    main()
