"""What keepers report becomes rows."""
