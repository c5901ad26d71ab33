"""The client of the job queue in Redis."""

from .client import QueueClient, QueueFault, Reply, connect, dump_json, load_json
from .guarded import GuardedQueue

__all__ = ["GuardedQueue", "QueueClient", "QueueFault", "Reply", "connect", "dump_json", "load_json"]
