"""People: accounts, sessions, what each may see and do, quotas, the audit log."""
