"""Text processing: words and phrases by language, names, secrets, and rendering of memories."""
