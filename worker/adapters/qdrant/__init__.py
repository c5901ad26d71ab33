"""Memory stores in Qdrant, embedded or on a server."""
