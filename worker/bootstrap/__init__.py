"""Composition root: open the adapters that the settings name, and assemble the service from them."""
