"""Experiments that begin with the results of earlier ones: which results are taken, and how well they agree."""
