"""Run the demo with a small local language model as the chat model."""

import subprocess
import sys

NOTE = (
    "This shows that the parts work together with a real model over HTTP. A model of 135 million parameters cannot "
    "select relevant memories, so its answers say nothing about quality."
)


def main() -> int:
    """Serve the model on a free port, run `meeseeks demo` with it and return the exit code of the demo."""
    server = [sys.executable, "-m", "tests.support.local_llm_server", "0"]
    with subprocess.Popen(server, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 - our own program
        try:
            assert process.stdout is not None
            words = process.stdout.readline().split()
            if len(words) != 4:
                return process.wait() or 1
            _, model, _, url = words
            demo = [sys.executable, "-m", "worker", "demo", "--model", model, "--model-api-base", url, "--note", NOTE]
            return subprocess.run(demo, check=False).returncode  # noqa: S603 - our own program
        finally:
            process.terminate()


if __name__ == "__main__":
    sys.exit(main())
