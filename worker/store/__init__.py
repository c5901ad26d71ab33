"""Writing of memories, and maintenance of whole stores: copy, back up, check and switch."""
