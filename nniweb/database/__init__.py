"""The database as a server: its clock, its silence, its outages, and SQLite's queue of writers."""
