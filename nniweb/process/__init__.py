"""The process itself: descriptors, memory, garbage, its number, its end."""
