"""Pages of one's account, and the ways in."""
