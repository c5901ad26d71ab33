"""What the stand-alone command prints beside answers. Standard library only, fast to load."""

import os

VERSION = "0.1.0"
"""Of both distributions; reading it from their metadata is slow."""

NOTHING = {
    "nexus": b'{"fire":false,"blocking":true,"enrich":{"memories":null}}',
    "gobby": b'{"injected":false,"count":0}',
}
"""Output for "no memory" by host; `EMPTY` for the others. `worker.hosts` says the same."""

EMPTY = b"{}"
"""A host's empty native output, which is only printed if the input is broken."""

SIGN = b'{"systemMessage":"Meeseeks: memory is off; the service is not running; start it with `meeseeks start`"}\n'
"""What tells the user of a host that memory is off."""

SIGNED = ("claude-code", "codex")
"""Hosts that show it, at a prompt."""

USAGE = b"""\
usage: meeseeks-hook [HOST | --help | --version]

Read one JSON object from standard input and print the memory for it as one JSON object.
With HOST (claude-code, codex, nexus or gobby) read and print what that host sends and expects.
Always exit with 0.

environment variables:
  MEESEEKS_DATA_DIR      data folder of the service on this machine
  MEESEEKS_REDIS_URL     or the address of its Redis
  MEESEEKS_URL           or the address of its HTTP API, with MEESEEKS_TOKEN
  MEESEEKS_TENANT, MEESEEKS_USER, MEESEEKS_PROJECT
                         whose memories a host's event gets
  MEESEEKS_TIMEOUT_MS    time limit in milliseconds
  MEESEEKS_DISABLE=1     do nothing
  MEESEEKS_DEBUG=1       explain each outcome in one line on standard error

try it:
  echo '{"session_id": "demo", "message": "What do you know about me?"}' | MEESEEKS_DEBUG=1 meeseeks-hook
"""


def write(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def debugs() -> bool:
    return os.environ.get("MEESEEKS_DEBUG") == "1"


def explain(text: str) -> None:
    """Write one line to standard error with `MEESEEKS_DEBUG=1`."""
    if debugs():
        complain(text)


def complain(text: str) -> None:
    line = " ".join(text.split())
    write(2, f"meeseeks-hook: {line}\n".encode("utf-8", "backslashreplace"))


def give_nothing(host: "str | None", broken: str, reason: str) -> None:
    """Print the host's "nothing". Say what is wrong with `broken` input, and with `MEESEEKS_DEBUG=1` another reason."""
    if broken:
        complain(f"no memory: {broken}")
    else:
        explain(f"no memory: {reason}")
    nothing = NOTHING.get(host or "", EMPTY if broken and host else b"")
    if nothing:
        write(1, nothing + b"\n")


def tell_user(host: "str | None", event: bytes) -> None:
    """Print that memory is off, if the host shows it to the user at this event."""
    import json  # slow to load, and only needed here  # noqa: PLC0415

    if event and host in SIGNED and json.loads(event).get("hook_event_name") == "UserPromptSubmit":
        write(1, SIGN)
