"""Other memory systems beside this one, each in a process and, if it is not ours, in an environment of its own."""
