"""Bringing a database to this program's version: a backup first, then all of it or nothing."""
