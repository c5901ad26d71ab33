"""The HTTP API. See `docs/http.md`.

Importing fastapi takes a large part of a second, so import `worker.api.server` only to serve HTTP.
"""
