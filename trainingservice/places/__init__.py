"""Warm places: jobs that stay when their trial has ended, and take the next ones."""
