"""The store in Qdrant's embedded engine."""
