"""Requests to a platform's REST interface."""
