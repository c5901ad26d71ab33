"""Captures memories from conversations: what users said and what lasts, checked before anything is written."""
