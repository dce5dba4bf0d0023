"""What administrators see at /admin/: clusters to set up, people and their tokens, the audit log, disk usage, rows."""

from . import audit_log, budgets, cluster_pages, disk_usage, people, quotas, rows

__all__ = ["audit_log", "budgets", "cluster_pages", "disk_usage", "people", "quotas", "rows"]
