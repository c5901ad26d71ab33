"""Runs the demo with the small local model as its chat model: the whole way with a real language model."""

import subprocess
import sys

NOTE = (
    "This was a check of the plumbing: a real model over real HTTP. A model of 135 million parameters cannot judge "
    "relevance, so do not read its choices as the service's quality."
)


def main() -> int:
    """Serve the model on a free port, run `meeseeks demo` against it, end both; the demo's exit code."""
    server = [sys.executable, "-m", "tests.support.local_llm_server", "0"]
    with subprocess.Popen(server, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 - our own program
        try:
            assert process.stdout is not None
            said = process.stdout.readline().split()
            if len(said) != 4:
                return process.wait() or 1
            _, model, _, url = said
            demo = [sys.executable, "-m", "worker", "demo", "--model", model, "--model-api-base", url, "--note", NOTE]
            return subprocess.run(demo, check=False).returncode  # noqa: S603 - our own program
        finally:
            process.terminate()


if __name__ == "__main__":
    sys.exit(main())
