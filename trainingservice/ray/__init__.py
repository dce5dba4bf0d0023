"""Trials as jobs of a Ray cluster, through its Jobs API."""
