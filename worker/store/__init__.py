"""Write memories, and maintain whole stores: copy, back up, check and switch."""
