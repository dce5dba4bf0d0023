"""The tuners, a file each."""
