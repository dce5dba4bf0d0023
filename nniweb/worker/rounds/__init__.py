"""The rounds over a cluster's experiments: their steps, and what the steps share."""
