"""`python -m hooks` is the command `meeseeks-hook`."""

from .shim import main

main()
