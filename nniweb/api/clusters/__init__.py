"""REST: clusters, platforms and workers."""
