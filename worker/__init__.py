"""The service: recall, choose and inject memories for agents."""

from pathlib import Path

PACKAGE_ROOT = Path(__file__).parent
"""The folder that holds the package's code and its data files; in a checkout, the repository is its parent."""
