"""REST: people, their tokens, groups, quotas and notifications."""
