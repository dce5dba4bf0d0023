"""Secrets at rest, in use and in text."""
