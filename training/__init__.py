"""Train and evaluate the relevance model; run `python -m training`."""
