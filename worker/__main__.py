"""`python -m worker` and the `meeseeks` script."""

import os

from .cli import app


def main() -> None:
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # onnxruntime reports to its maker otherwise
    app()


if __name__ == "__main__":
    main()
