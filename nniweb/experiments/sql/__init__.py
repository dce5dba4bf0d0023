"""Statements put together by hand, columns of our own, and what the database can and may do."""
