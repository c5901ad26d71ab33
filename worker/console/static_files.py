"""Scripts and styles, named by their content so that browsers may keep them for a year."""

import hashlib
import mimetypes
from pathlib import Path, PurePosixPath

from starlette.requests import Request
from starlette.responses import Response

FOLDER = Path(__file__).parent / "static"
SEGMENT = "static"
SUFFIXES = frozenset({".css", ".js", ".svg"})
HASH_CHARS = 12
HEADERS = {"Cache-Control": "public, max-age=31536000, immutable", "X-Content-Type-Options": "nosniff"}


class StaticFiles:
    """The files below a folder, read once."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self._urls: dict[str, str] = {}
        self._files: dict[str, tuple[bytes, str]] = {}
        for path in sorted(folder.rglob("*")):
            if path.suffix in SUFFIXES:
                self._add(path.relative_to(folder).as_posix(), path.read_bytes())

    def _add(self, name: str, content: bytes) -> None:
        pure, digest = PurePosixPath(name), hashlib.sha256(content).hexdigest()[:HASH_CHARS]
        hashed = pure.with_name(f"{pure.stem}.{digest}{pure.suffix}").as_posix()
        self._urls[name] = f"/{SEGMENT}/{hashed}"
        self._files[hashed] = content, mimetypes.guess_type(name)[0] or "text/plain"

    def url(self, name: str) -> str:
        return self._urls[name]

    async def serve(self, request: Request) -> Response:
        found = self._files.get(request.path_params["name"])
        if found is None:
            return Response(status_code=404)
        return Response(found[0], headers=HEADERS, media_type=found[1])
