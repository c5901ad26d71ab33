"""The client of the job queue in Redis."""

from .address import RedisAddressError
from .client import QueueClient, QueueFault, Reply, connect, dump_json, load_json
from .explain import UNREACHABLE, explain
from .guarded import GuardedQueue

__all__ = [
    "UNREACHABLE",
    "GuardedQueue",
    "QueueClient",
    "QueueFault",
    "RedisAddressError",
    "Reply",
    "connect",
    "dump_json",
    "explain",
    "load_json",
]
