"""Import and export of memories, with one streaming reader per format. Its modules are imported one by one."""
