"""Pushes changes to browsers over websockets."""
