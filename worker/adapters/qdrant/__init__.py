"""Memories in Qdrant, embedded or on a server."""
