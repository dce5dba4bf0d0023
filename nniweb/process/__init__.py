"""The process itself: descriptors, memory, garbage, its number, its end, limits that it keeps for itself."""
