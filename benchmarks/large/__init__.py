"""Databases of a size that nobody waits for: made by statements that copy rows inside the database."""
