"""What administrators see at /admin/: clusters to set up, people and their tokens, the audit log, rows to look at."""

from . import audit_log, cluster_pages, people, quotas, rows

__all__ = ["audit_log", "cluster_pages", "people", "quotas", "rows"]
