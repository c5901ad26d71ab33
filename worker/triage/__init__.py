"""A chat or decision model chooses among candidates."""
