"""Upkeep of memories: duplicates merged, expired ones closed, changed values proposed, unused ones listed."""
