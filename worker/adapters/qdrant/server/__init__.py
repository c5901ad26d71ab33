"""The store on a Qdrant server."""
