"""Evaluation: what is injected for labelled tasks, measured, compared, and as the gate that a prompt has to pass.

Numpy is imported where something is resampled, not with this package.
"""
