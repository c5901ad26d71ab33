"""One recall: searches and their ranking."""
