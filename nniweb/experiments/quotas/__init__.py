"""Quotas of owners and groups, limits of clusters: what they let start, and who goes first."""
