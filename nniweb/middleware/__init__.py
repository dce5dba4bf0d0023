"""ASGI middleware: what stands before every request, whoever answers it."""
