"""Recall memories for a query: search the store and rank the hits."""
