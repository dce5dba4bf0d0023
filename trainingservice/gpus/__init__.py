"""GPUs: indices, readings, and which trial gets which."""
