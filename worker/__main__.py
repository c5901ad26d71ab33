"""`python -m worker` and the `meeseeks` script."""

import gc
import os

from .cli import app


def main() -> None:
    gc.disable()  # modules are no garbage; `worker.cli.command` enables it once those of the command are loaded
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # onnxruntime reports to its maker otherwise
    app()


if __name__ == "__main__":
    main()
