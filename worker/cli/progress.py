"""Progress bars."""

from rich.progress import Progress, ProgressColumn

from .output import wants_json
from .terminal import errors


def progress_bar(*columns: ProgressColumn) -> Progress:
    """Return a progress bar that JSON output switches off."""
    return Progress(*columns, console=errors, disable=wants_json(), transient=True)
