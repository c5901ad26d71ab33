"""Wire protocols in plain standard library. Imports nothing, so that the stand-alone command starts fast."""
