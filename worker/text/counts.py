"""Numbers of things in words."""


def counted(number: int, one: str = "memory", several: str = "memories") -> str:
    """Return `1 memory` or `2 memories`."""
    return f"{number} {one if number == 1 else several}"
