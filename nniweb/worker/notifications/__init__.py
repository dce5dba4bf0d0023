"""Sends what waits in the queue of messages."""
