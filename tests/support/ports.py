"""Ports for servers of tests."""

import random
import socket
from contextlib import suppress

BELOW_THE_SYSTEMS_OWN = range(10_000, 32_000)
"""Ports that the system gives neither to connections nor to who asks for any port: nobody takes one meanwhile."""

_random = random.SystemRandom()  # the usual one begins at the same seed in every process


def free_port() -> int:
    """Return a port that nothing listens on just now."""
    while True:
        port = _random.choice(BELOW_THE_SYSTEMS_OWN)
        with suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return port
