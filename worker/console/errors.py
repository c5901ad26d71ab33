"""Errors that a page shows."""


class PageError(Exception):
    """A request that a page cannot serve; `detail` tells people what is wrong and what to do."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
