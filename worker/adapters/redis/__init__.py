"""The queue and saved state in Redis or an embedded Valkey."""
