"""The HTTP service: every operation as an endpoint, for programs in any language. See `docs/http.md`.

fastapi takes a good part of a second to import, so `worker.api.server` is imported when HTTP is served, not before.
"""
