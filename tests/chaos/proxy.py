"""A proxy before Redis that delays or resets connections."""

import asyncio
from contextlib import suppress


class FaultProxy:
    """Listen on a port of this machine and pass everything on to a Unix socket, `delay` seconds late."""

    def __init__(self, socket_path: str) -> None:
        self._path = socket_path
        self._open: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None
        self.delay = 0.0
        self.refuses = False

    async def start(self) -> int:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
            self.reset()
            await asyncio.sleep(0.1)

    def reset(self) -> None:
        """Break every connection off."""
        for writer in tuple(self._open):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            if self.refuses:
                writer.transport.abort()
                return
            inner_reader, inner_writer = await asyncio.open_unix_connection(self._path)
            self._open.add(inner_writer)
            try:
                await asyncio.gather(self._copy(reader, inner_writer), self._copy(inner_reader, writer))
            finally:
                inner_writer.close()
                self._open.discard(inner_writer)
        except OSError:
            pass
        finally:
            writer.close()
            self._open.discard(writer)

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65_536):
                if self.delay:
                    await asyncio.sleep(self.delay)
                writer.write(data)
                await writer.drain()
        writer.close()
