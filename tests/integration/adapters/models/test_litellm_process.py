"""A fresh process that calls models: what it says and connects to, and what it imports while its event loop waits."""

import asyncio
import re
import subprocess
import sys

from tests.support.upstream import Mode, Upstream

SECRET = "zebra-striped-sentinel"
PROGRAM = """
import asyncio, logging, os, sys
from worker.adapters.models.litellm_process import prepare_environment

def local_only(event, args):
    if event == "socket.connect" and args[1][0] not in ("127.0.0.1", "::1"):
        sys.stderr.write(f"CONNECTED TO {args[1]}\\n")

sys.addaudithook(local_only)
logging.basicConfig(level=logging.DEBUG, stream=sys.stderr)
prepare_environment(os.environ)
from worker.adapters.models.litellm_chat import LiteLLMModel
from worker.domain.deadline import Deadline
from worker.domain.errors import ModelError
from worker.domain.model_calls import ChatRequest

async def call(model):
    try:
        await model.complete(ChatRequest(({"role": "user", "content": sys.argv[2]},)), Deadline.after(20))
    except ModelError as error:
        sys.stderr.write(f"REASON {error.reason}\\n")

async def main():
    model = LiteLLMModel("openai/none", api_base="http://127.0.0.1:9/v1")
    before = len(sys.modules)
    await call(model)
    sys.stderr.write(f"IMPORTED {len(sys.modules) - before}\\n")
    for name, base in (("openai/unheard-of", sys.argv[1] + "/v1"), ("ollama/unheard-of", sys.argv[1])):
        model = LiteLLMModel(name, api_base=base)
        for _ in range(3):
            await call(model)
    await model.aclose()

asyncio.run(main())
"""


async def test_a_fresh_process_is_silent_connects_to_nothing_else_and_imports_nearly_nothing_in_a_call() -> None:
    async with Upstream() as upstream:
        upstream.mode = Mode.RATE_LIMIT
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", PROGRAM, upstream.url, SECRET, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        stdout, stderr = (stream.decode() for stream in await process.communicate())
        assert process.returncode == 0, stderr
        assert len(upstream.requests) == 6
    assert stdout == ""
    assert re.findall(r"^REASON (\w+)$", stderr, re.MULTILINE) == ["model_unreachable", *["model_rate_limited"] * 6]
    (imported,) = re.findall(r"^IMPORTED (\d+)$", stderr, re.MULTILINE)
    assert int(imported) < 20
    assert "CONNECTED TO" not in stderr
    assert SECRET not in stderr
    assert "secret-body" not in stderr
    assert "Unclosed" not in stderr
