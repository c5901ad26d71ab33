"""Run `meeseeks-hook` as `python -m hooks`."""

from .shim import main

main()
