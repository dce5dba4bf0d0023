"""Tuners and assessors that users wrote against NNI's base classes, run in a process of their own."""
