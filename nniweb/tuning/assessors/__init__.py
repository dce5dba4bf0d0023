"""The assessors, and how intermediate results come to them."""
