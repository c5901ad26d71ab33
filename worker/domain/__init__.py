"""Values of the field: memories, receipts, ledger entries, model calls, errors and deadlines. No I/O."""
