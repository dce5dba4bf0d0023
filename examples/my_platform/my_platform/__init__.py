"""A platform for NNI Web that lives in a package of its own."""
