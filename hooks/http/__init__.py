"""The client of the HTTP API; needs httpx."""
