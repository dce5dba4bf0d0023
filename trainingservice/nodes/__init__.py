"""Trials that run on several nodes at the same time: what is asked of a platform, and how their nodes are named."""
