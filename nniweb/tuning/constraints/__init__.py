"""Constraints of an experiment: expressions over names that are true or false of a parameter set, or of a result."""
