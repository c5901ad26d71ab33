"""Where the Valkey of `meeseeks up` is."""

import socket

from hooks.protocol.wire import socket_path, unix_url
from worker.settings.service import ServiceSettings

PROBE_TIMEOUT = 0.5


def embedded_redis_url(service: ServiceSettings) -> str:
    """Return the URL of the Valkey that `meeseeks up` starts."""
    return unix_url(socket_path(str(service.home.absolute())))


def embedded_is_up(service: ServiceSettings) -> bool:
    """Return whether a process listens on the socket of `meeseeks up`'s Valkey."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(PROBE_TIMEOUT)
        return probe.connect_ex(socket_path(str(service.home.absolute()))) == 0
