"""The console: pages in the browser that show why a memory came or did not, and change memories and settings.

See "How a page is made" in `docs/architecture.md`.
"""
