"""The browser of the tests of the pages, and of the pictures of them."""

import shutil

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser")
"""The shell, which shows no windows, needs two thirds of the processor time."""

PROGRAM = next((path for name in NAMES if (path := shutil.which(name))), None)
MISSING = "Chromium is not installed: apt-get install chromium"
