"""What a text is made of: words and phrases of each language, names, secrets to mask, and how a memory is rendered."""
