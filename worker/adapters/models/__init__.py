"""Chat models, decision models, embedders and the relevance model's file."""
