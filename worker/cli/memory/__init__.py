"""Commands for memories, requests and sessions."""
