"""Statuses of experiments and trials: the one place that writes them, ends, retries, the tuner's history."""
