"""The memory store on a Qdrant server."""
