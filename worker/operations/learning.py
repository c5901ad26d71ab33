"""Learn cues from messages: one for which a chat model chose a memory, or whose answer used it, becomes its cue.

Messages wait in a short queue and are written one at a time, after their answers.
"""

import asyncio
from collections.abc import Collection, Sequence
from functools import partial
from typing import Any

import structlog

from hooks.contract import ItemSource
from worker.domain.cues import MAX_CUE_CHARS, CueOrigin
from worker.domain.errors import MeeseeksError
from worker.domain.kinds import ReceiptKeep
from worker.domain.receipt import ConsideredMemory, Receipt
from worker.query.focus import stands_alone
from worker.settings.injection import InjectionConfig
from worker.text.lexicon import Lexicon, content_tokens, lexicon, tokens

from .bulk import WRITE_BUDGET
from .client import OperationClient
from .lasting import LastingWork
from .registry import ADD_CUES

MOST_TOGETHER = 3
"""Memories of one message; one that needs more of them says little about each."""

FEW_WORDS = 2
"""Content words of a message that may be about anything ("write tests")."""

MOST_WAITING = 100
"""Messages that wait to be learned from; further ones are left out."""

PAUSE = 0.5
"""Seconds before each write, which leave the machine to answers."""

log = structlog.get_logger()


class CueLearning:
    """Learns from receipts; close it before the operations that it uses."""

    def __init__(self, pause: float = PAUSE) -> None:
        self._waiting: asyncio.Queue[dict[str, Any]] = asyncio.Queue(MOST_WAITING)
        self._pause = pause
        self._work: LastingWork | None = None

    def __call__(self, receipt: Receipt, ids: Sequence[str], config: InjectionConfig) -> None:
        """Learn from the request of a receipt that these memories were needed; return at once."""
        wanted = cues_to_learn(receipt, ids, config)
        if wanted is None:
            return
        try:
            self._waiting.put_nowait(wanted)
        except asyncio.QueueFull:
            log.info("cue_not_learned", reason="too many are waiting")

    def start(self, client: OperationClient) -> None:
        self._work = LastingWork("learn-cues", partial(self._learn, client))

    async def _learn(self, client: OperationClient) -> None:
        while True:
            wanted = await self._waiting.get()
            await asyncio.sleep(self._pause)
            try:
                done = await client.call(ADD_CUES, wanted, budget=WRITE_BUDGET)
                log.debug("cue_learned", memories=len(done["added"]))
            except MeeseeksError as error:
                log.warning("cue_not_learned", reason=str(error))
            finally:
                self._waiting.task_done()

    async def drain(self) -> None:
        """Wait until nothing is left to learn."""
        await self._waiting.join()

    async def aclose(self) -> None:
        """Stop; what waits is not learned."""
        if self._work is not None:
            await self._work.aclose()


def cues_to_learn(receipt: Receipt, ids: Collection[str], config: InjectionConfig) -> dict[str, Any] | None:
    """Return the cues to add to these memories; `None` if the message is not one to learn from. Pure.

    The store adds them only to memories of the same user.
    """
    needed = [one for one in receipt.considered if one.id in ids and one.source is not ItemSource.PINNED]
    message, known = " ".join(receipt.request.message.split()), lexicon(config.languages)
    if len(needed) > MOST_TOGETHER or not config.learn_cues or not _teaches(receipt, message, known):
        return None
    found = [one for one in needed if _is_specific(message, one.text, known)]
    if not found:
        return None
    cue = {"text": message, "origin": CueOrigin.LEARNED, "user": receipt.request.scope.user}
    return {"tenant": receipt.request.scope.tenant, "memories": [_with(cue, one) for one in found]}


def _teaches(receipt: Receipt, message: str, known: Lexicon) -> bool:
    """Return whether a user wrote this message, it may be kept, and it says on its own what it is about."""
    request = receipt.request
    if request.dry_run or request.now is not None or request.source != "user":
        return False
    if receipt.kept is not ReceiptKeep.EVERYTHING or not 0 < len(message) <= MAX_CUE_CHARS:
        return False
    alone = not (request.recent_messages or request.task_description)
    return alone or stands_alone(message, known)


def _is_specific(message: str, text: str, known: Lexicon) -> bool:
    """Return whether a message has more than `FEW_WORDS` content words, or one that the memory has, too."""
    shared = set(tokens(message)) & set(tokens(text))
    return content_tokens(message, known) > FEW_WORDS or any(content_tokens(word, known) for word in shared)


def _with(cue: dict[str, Any], memory: ConsideredMemory) -> dict[str, Any]:
    return {"id": memory.id, "version": memory.version, "cues": [cue]}
