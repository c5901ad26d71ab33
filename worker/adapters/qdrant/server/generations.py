"""The generations of a store on a Qdrant server: one collection each, and an alias for the live one."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from qdrant_client import AsyncQdrantClient, models

from worker.domain.errors import StoreError
from worker.ports.store import Generations, Recipe

from .connection import FOLLOW_S, WRITE_TIMEOUT
from .job_lease import JobLease
from .store import ServerStore
from .wire import SERVER_ERRORS, brief, connected, create_alias, delete_alias, live_alias

TIMEOUT = 30.0


@dataclass(frozen=True, slots=True)
class _Known:
    """Collections and aliases of one store."""

    live: str
    has_alias: bool
    formers: dict[str, str]
    numbers: dict[str, int]


class ServerGenerations:
    """`StoreGenerations` on the server at `url`: the collections `name`, `name-2` and so on.

    The alias `name-live` points to the live one and `name-former-N` to former ones; all change in one request.
    """

    def __init__(self, url: str, *, api_key: str | None, name: str) -> None:
        self._url = url
        self._api_key = api_key
        self._name = name

    @property
    def shared(self) -> bool:
        return True

    @property
    def live_name(self) -> str:
        return self._name

    @property
    def settle_s(self) -> float:
        """Allow for a process that starts its longest write just before it notices the new generation."""
        return FOLLOW_S + WRITE_TIMEOUT

    async def generations(self) -> Generations:
        async with self._client() as client:
            known = await self._known(client)
        formers = sorted(known.formers.items(), key=lambda one: self._former_number(one[0]), reverse=True)
        previous = tuple(collection for _, collection in formers)
        used = {known.live, *previous}
        drafts = [name for name, _ in sorted(known.numbers.items(), key=lambda one: one[1]) if name not in used]
        return Generations(known.live, previous, drafts[-1] if drafts else None)

    async def open(self, name: str, recipe: Recipe) -> ServerStore:
        return self._store(name, recipe, follow=False)

    async def open_live(self, recipe: Recipe) -> ServerStore:
        return self._store(self._name, recipe, follow=True)

    @asynccontextmanager
    async def exclusive(self) -> AsyncIterator[None]:
        async with self._client() as client:
            lease = JobLease(client, self._name, (await self._known(client)).live)
            async with lease.held():
                yield

    async def begin(self) -> str:
        """Return the name of a new draft; its collection is created on first use."""
        async with self._client() as client:
            numbers = (await self._known(client)).numbers
        return f"{self._name}-{max([1, *numbers.values()]) + 1}"

    async def promote(self, name: str) -> None:
        async with self._client() as client:
            known = await self._known(client)
            gone = [alias for alias, collection in known.formers.items() if collection == name]
            number = max([0, *map(self._former_number, known.formers)]) + 1
            if known.has_alias:
                gone.append(live_alias(self._name))
            actions: list[models.AliasOperations] = [delete_alias(alias) for alias in gone]
            actions.append(create_alias(live_alias(self._name), name))
            actions.append(create_alias(f"{self._name}-former-{number}", known.live))
            await client.update_collection_aliases(actions)

    async def discard(self, name: str) -> None:
        async with self._client() as client:
            known = await self._known(client)
            if name == known.live:
                raise StoreError(f"{name} is the live generation and cannot be deleted")
            gone = [alias for alias, collection in known.formers.items() if collection == name]
            if gone:
                await client.update_collection_aliases([delete_alias(alias) for alias in gone])
            await client.delete_collection(name)

    def _store(self, name: str, recipe: Recipe, *, follow: bool) -> ServerStore:
        return ServerStore.connect(
            self._url,
            api_key=self._api_key,
            collection=name,
            profile=recipe.profile,
            bm25_hash=recipe.bm25_hash,
            follow=follow,
        )

    async def _known(self, client: AsyncQdrantClient) -> _Known:
        aliases = {one.alias_name: one.collection_name for one in (await client.get_aliases()).aliases}
        live = aliases.get(live_alias(self._name))
        formers = {alias: collection for alias, collection in aliases.items() if self._former_number(alias)}
        names = [one.name for one in (await client.get_collections()).collections]
        numbers = {name: number for name in names if (number := _number(name, f"{self._name}-"))}
        return _Known(live or self._name, live is not None, formers, numbers)

    def _former_number(self, alias: str) -> int:
        return _number(alias, f"{self._name}-former-")

    @asynccontextmanager
    async def _client(self) -> AsyncIterator[AsyncQdrantClient]:
        client = connected(self._url, self._api_key, TIMEOUT)
        try:
            yield client
        except SERVER_ERRORS as error:
            raise StoreError(f"the Qdrant server failed: {brief(error)}") from error
        finally:
            await client.close()


def _number(name: str, prefix: str) -> int:
    """Return the number after `prefix`, 0 if `name` has another form."""
    rest = name.removeprefix(prefix)
    return int(rest) if rest != name and rest.isdigit() else 0
