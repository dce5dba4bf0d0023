"""What people ask of an experiment that exists: each function writes what is wanted."""
