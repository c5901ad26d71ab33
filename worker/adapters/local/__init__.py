"""Files, folders and processes of this machine."""
