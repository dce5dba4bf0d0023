"""The endpoints trial keepers call: a small ASGI application beside Django."""
