"""What was rejected or deleted stays gone, wherever memories are written."""

from collections.abc import Sequence

from worker.domain.errors import MemoryRejected
from worker.domain.memory import Memory
from worker.ports.capture import CaptureStore

from .fingerprints import is_refused, refusal_of


class Refusals:
    """Remembers refusals; without a store for them, as in a command without a service, nothing is refused."""

    def __init__(self, captures: CaptureStore | None) -> None:
        self._captures = captures

    async def check(self, tenant: str, memory: Memory) -> None:
        """Raise `MemoryRejected` if somebody rejected this, or deleted it after it was captured."""
        if await self.refused(tenant, [memory]):
            raise MemoryRejected(
                "content: this was rejected or deleted before; to store it all the same, a person can use"
                " `meeseeks remember`, or send `again: true`"
            )

    async def refused(self, tenant: str, memories: Sequence[Memory]) -> frozenset[str]:
        """Return the ids of those memories that were refused for good."""
        refusals = await self._captures.refusals(tenant) if self._captures is not None else []
        if self._captures is None or not any(one.lasting for one in refusals):
            return frozenset()
        salt = await self._captures.salt()
        return frozenset(one.id for one in memories if is_refused(one, refusals, salt, only_lasting=True))

    async def deleted(self, tenant: str, memories: Sequence[Memory]) -> None:
        """Note deletions: captured memories come back nowhere, others are only not captured again."""
        if self._captures is not None and memories:
            salt = await self._captures.salt()
            found = [refusal_of(one, salt, lasting=one.evidence is not None) for one in memories]
            await self._captures.refuse(tenant, found)

    async def allow(self, tenant: str, memories: Sequence[Memory]) -> None:
        """Forget the refusals of these texts: somebody wants them."""
        if self._captures is not None and memories and await self._captures.refusals(tenant):
            salt = await self._captures.salt()
            await self._captures.allow(tenant, [refusal_of(one, salt, lasting=True) for one in memories])
