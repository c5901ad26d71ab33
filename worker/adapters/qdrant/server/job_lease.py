"""One job at a time on the generations of a shared store: an alias says that a process works on them."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import uuid4

import structlog
from qdrant_client import AsyncQdrantClient

from worker.domain.errors import StoreError
from worker.domain.tasks import ended

from .wire import SERVER_ERRORS, brief, create_alias, delete_alias

LASTS_S = 60
"""Seconds after which the job of a process that crashed no longer counts."""

RENEW_S = 15.0

log = structlog.get_logger()


class JobLease:
    """The right to change the generations of the store `name`, as the alias `<name>-job-<id>-<expiry>`."""

    def __init__(self, client: AsyncQdrantClient, name: str, collection: str) -> None:
        self._client = client
        self._prefix = f"{name}-job-"
        self._collection = collection
        self._id = uuid4().hex[:12]
        self._alias: str | None = None

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Hold the lease within the block. Raise `StoreError` if another process has it."""
        await self._renew()
        try:
            if await self._others():
                raise StoreError(
                    f"another process is working on this store; wait for it to end, or {LASTS_S} s if it crashed"
                )
            renewing = asyncio.create_task(self._keep(), name="keep-job-lease")
            try:
                yield
            finally:
                await ended(renewing)
        finally:
            if self._alias is not None:
                await self._client.update_collection_aliases([delete_alias(self._alias)])

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(RENEW_S)
            try:
                await self._renew()
            except SERVER_ERRORS as error:  # the next attempt comes before it expires
                log.warning("job_lease_not_renewed", error=brief(error))

    async def _renew(self) -> None:
        alias = f"{self._prefix}{self._id}-{int(time.time()) + LASTS_S}"
        former = [] if self._alias is None or self._alias == alias else [delete_alias(self._alias)]
        if alias != self._alias:
            await self._client.update_collection_aliases([*former, create_alias(alias, self._collection)])
            self._alias = alias

    async def _others(self) -> list[str]:
        """Return the aliases of other jobs that have not expired, and delete the expired ones."""
        found = [one.alias_name for one in (await self._client.get_aliases()).aliases]
        jobs = [alias for alias in found if alias.startswith(self._prefix) and alias != self._alias]
        outdated = [alias for alias in jobs if not _ends(alias) > time.time()]
        if outdated:
            await self._client.update_collection_aliases([delete_alias(alias) for alias in outdated])
        return [alias for alias in jobs if alias not in outdated]


def _ends(alias: str) -> float:
    moment = alias.rpartition("-")[2]
    return float(moment) if moment.isdigit() else 0.0
