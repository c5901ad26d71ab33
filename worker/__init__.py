"""The service: decides which memories one worker run is given."""
