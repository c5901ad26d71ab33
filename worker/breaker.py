"""Stops asking a model that keeps failing, and tries it again by itself: the breaker that callers use too."""

from hooks.breaker import CircuitBreaker

__all__ = ["CircuitBreaker"]
