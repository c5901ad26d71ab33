"""Select memories among candidates with a chat or decision model."""
