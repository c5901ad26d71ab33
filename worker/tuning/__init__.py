"""Fit thresholds and models to labelled worlds, and measure what they are worth."""
