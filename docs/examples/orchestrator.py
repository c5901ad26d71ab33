"""A small orchestrator whose workers have memory: `python docs/examples/orchestrator.py SESSION MESSAGE`.

It needs only `meeseeks-hooks`. Memory takes two calls of `AutomationRunner.run`: automations at `worker:pre_execution`
may extend the worker's message, and those at `worker:post_execution` receive its answer.
"""

import asyncio
import sys
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from hooks.automations import AutomationRunner, HookPoint

Worker = Callable[[list[dict[str, str]]], Awaitable[str]]
"""Takes the conversation, newest message last, and returns the answer. A real worker would call a model."""


@dataclass
class Orchestrator:
    """Dispatches the messages of sessions to a worker."""

    runner: AutomationRunner
    worker: Worker
    tenant: str = "default"
    histories: dict[str, list[dict[str, str]]] = field(default_factory=dict)

    async def dispatch(self, session_id: str, message: str) -> str:
        """Return the worker's answer. Memory never makes this fail and adds at most three seconds."""
        history = self.histories.setdefault(session_id, [])
        event = {
            "session_id": session_id,
            "turn_id": uuid.uuid4().hex,
            "message": message,
            "recent_messages": history[-4:],
            "scope": {"tenant": self.tenant},
        }
        outcome = await self.runner.run(HookPoint.PRE_EXECUTION, event, deadline=3.0)
        history.append({"role": "user", "content": outcome.prefix(message)})
        answer = await self.worker(history)
        history.append({"role": "assistant", "content": answer})
        await self.runner.run(HookPoint.POST_EXECUTION, {**event, "answer": answer}, deadline=1.0)
        return answer


async def repeat(messages: list[dict[str, str]]) -> str:
    """Repeat the last message instead of calling a model."""
    return f"I was asked:\n{messages[-1]['content']}"


async def main(session_id: str, message: str) -> None:
    async with AutomationRunner() as runner:
        sys.stdout.write(await Orchestrator(runner, repeat).dispatch(session_id, message) + "\n")
        await runner.drain(10.0)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:3]))
