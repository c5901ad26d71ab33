"""A line in which tenants, and agents of one tenant, are served in turn, so that a flood delays only itself."""

from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Caller:
    """Whose request it is."""

    tenant: str = ""
    agent: str = ""


@dataclass(slots=True)
class FairLine(Generic[T]):
    """Entries waiting by tenant and agent. Each tenant has one turn per round, and so has each of its agents."""

    _tenants: OrderedDict[str, OrderedDict[str, deque[T]]] = field(default_factory=OrderedDict)
    _size: int = 0

    def __len__(self) -> int:
        return self._size

    def push(self, caller: Caller, entry: T) -> None:
        agents = self._tenants.setdefault(caller.tenant, OrderedDict())
        agents.setdefault(caller.agent, deque()).append(entry)
        self._size += 1

    def pop(self) -> T:
        """Return the next entry. Raise `KeyError` if nobody waits."""
        if not self._tenants:
            raise KeyError("nobody waits")
        tenant, agents = next(iter(self._tenants.items()))
        agent, entries = next(iter(agents.items()))
        entry = entries[0]
        self._take(Caller(tenant, agent), entry)
        if agent in agents:
            agents.move_to_end(agent)
        if tenant in self._tenants:
            self._tenants.move_to_end(tenant)
        return entry

    def remove(self, caller: Caller, entry: T) -> None:
        """Remove an entry that waits no longer, if it is still in the line."""
        agents = self._tenants.get(caller.tenant)
        if agents is not None and entry in agents.get(caller.agent, ()):
            self._take(caller, entry)

    def ahead(self, caller: Caller) -> int:
        """Return how many of those waiting now would be served before a new entry of `caller`."""
        agents = self._tenants.get(caller.tenant, OrderedDict[str, deque[T]]())
        own = len(agents.get(caller.agent, ()))
        others = (len(entries) for agent, entries in agents.items() if agent != caller.agent)
        of_tenant = own + sum(min(waiting, own + 1) for waiting in others)
        tenants = (sum(map(len, its.values())) for tenant, its in self._tenants.items() if tenant != caller.tenant)
        return of_tenant + sum(min(waiting, of_tenant + 1) for waiting in tenants)

    def _take(self, caller: Caller, entry: T) -> None:
        agents = self._tenants[caller.tenant]
        agents[caller.agent].remove(entry)
        self._size -= 1
        if not agents[caller.agent]:
            del agents[caller.agent]
        if not agents:
            del self._tenants[caller.tenant]
