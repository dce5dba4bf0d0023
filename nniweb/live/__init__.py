"""Pushes changes to browsers over websockets.

``consumer`` speaks with one browser, ``hub`` wakes readers when something changed, ``frames`` reads
the rows since a revision. The protocol is in docs/live-protocol.md.
"""
