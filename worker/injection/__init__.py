"""The main use case: a request goes in; an answer, a block and a receipt come out."""
