"""What needs no platform: retention, rows of deleted experiments."""
