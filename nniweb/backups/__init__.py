"""Backups: all that an installation keeps, in one file, taken while it runs."""
