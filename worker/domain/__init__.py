"""Values without I/O: memories, receipts, ledger entries, model calls, errors and deadlines."""
