"""`python -m worker` and the `meeseeks` script."""

from .cli import app


def main() -> None:
    """Run the command line."""
    app()


if __name__ == "__main__":
    main()
