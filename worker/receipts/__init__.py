"""What is done with past requests: search, replay, labelled cases and usage of answers."""
