"""`python -m worker` and the `meeseeks` script."""

from .cli import app


def main() -> None:
    app()


if __name__ == "__main__":
    main()
