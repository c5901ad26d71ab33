"""`python -m bench`."""

import os
import sys
from importlib import import_module


def main() -> int:
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # onnxruntime reports to its maker otherwise, once imported
    status: int = import_module("bench.command").main()
    return status


if __name__ == "__main__":
    sys.exit(main())
