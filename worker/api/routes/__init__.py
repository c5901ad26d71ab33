"""The endpoints, one module per group."""
