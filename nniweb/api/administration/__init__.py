"""REST: what administrators look at and set: the audit log, disk usage, quotas."""
