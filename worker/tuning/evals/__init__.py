"""Measure what is injected for labelled tasks, compare evaluations, and promote prompts."""
