"""Protocols for what the logic needs from outside: models, the store and saved state."""
