"""Settings: read from a file, the environment and Redis, merged, validated and kept current."""
