"""The code of an experiment as one archive."""
