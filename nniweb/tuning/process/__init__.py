"""The process that hosts tuners, and the worker's side of it."""
