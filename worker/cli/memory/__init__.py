"""Commands that read and write memories, sessions and receipts."""
