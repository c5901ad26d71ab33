"""Requests by name, JSON in and out, for the queue, HTTP and the command line."""
