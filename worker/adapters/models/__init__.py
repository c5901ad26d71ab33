"""Chat models, embedders and the relevance model's file."""
