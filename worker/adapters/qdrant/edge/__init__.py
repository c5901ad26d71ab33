"""The embedded store, in Qdrant Edge."""
