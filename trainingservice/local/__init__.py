"""Runs trials as processes of this machine, each under a keeper that outlives the server."""
