"""Clusters: their settings and secrets, the service objects made of them, their GPUs, their addresses."""
