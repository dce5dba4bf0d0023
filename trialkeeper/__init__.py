"""Wraps one trial on the machine where it runs. Standard library only, Python 3.8 or newer."""
