"""Protocols for models, the memory store and saved state, implemented in `worker.adapters`."""
