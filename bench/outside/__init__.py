"""Benchmark on data sets by other authors, beside another memory system."""
