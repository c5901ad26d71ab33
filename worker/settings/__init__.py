"""What files, environment variables and saved settings say, merged and kept current."""
