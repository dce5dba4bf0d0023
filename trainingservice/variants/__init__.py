"""Variants of the code of an experiment, each for one trial."""
