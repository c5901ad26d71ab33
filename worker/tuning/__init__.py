"""Fit thresholds and models to labelled worlds, and measure them."""
