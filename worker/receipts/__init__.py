"""Work with past requests: search, replay, labelled cases and usage by answers."""
