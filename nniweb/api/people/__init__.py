"""REST: people, their tokens, groups and notifications."""
