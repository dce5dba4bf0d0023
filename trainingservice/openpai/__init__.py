"""Trials as jobs of an OpenPAI cluster."""
