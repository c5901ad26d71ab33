"""Answer injection requests and apply session events."""
