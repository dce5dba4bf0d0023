"""People: accounts, sessions, what each may see and do, the audit log."""
