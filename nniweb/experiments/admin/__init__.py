"""What administrators see at /admin/: clusters to set up, people and their tokens, and rows to look at."""

from . import cluster_pages, people, rows

__all__ = ["cluster_pages", "people", "rows"]
