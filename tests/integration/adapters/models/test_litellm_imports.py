"""What the first call of a process imports, while the event loop stands still."""

import subprocess
import sys

SCRIPT = """
import asyncio, os, sys
from worker.adapters.models.litellm_process import prepare_environment
prepare_environment(os.environ)
from worker.adapters.models.litellm_chat import LiteLLMModel
from worker.domain.deadline import Deadline
from worker.domain.errors import ModelError
from worker.domain.model_calls import ChatRequest

async def main():
    model = LiteLLMModel("openai/none", api_base="http://127.0.0.1:9/v1")
    before = len(sys.modules)
    try:
        request = ChatRequest(messages=({"role": "user", "content": "hi"},), max_tokens=1)
        await model.complete(request, Deadline.after(20))
    except ModelError as error:
        print(error.reason.value, len(sys.modules) - before)

asyncio.run(main())
"""


def test_a_first_call_that_fails_imports_nearly_nothing() -> None:
    command = [sys.executable, "-c", SCRIPT]
    reason, modules = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.split()
    assert reason == "model_unreachable"
    assert int(modules) < 20
