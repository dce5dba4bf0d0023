"""SSH connections: routes, logins, host keys."""
