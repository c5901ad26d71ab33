"""Analysis of a request: skip rules, query, and time expressions."""
