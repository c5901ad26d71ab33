"""How the model is made: from labelled worlds to the file that ships, and what it is worth. `python -m training`."""
