"""Files that trials write, opened without following links."""
