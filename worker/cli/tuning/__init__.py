"""Commands that evaluate and tune."""
