"""Checkpoints of trials: how they are stored, which of them a new attempt is given, what is kept of them."""
