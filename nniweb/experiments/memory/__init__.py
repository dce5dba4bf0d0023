"""The memory that trials need: what their attempts ran out of, and what the next ones get."""
