"""The domain: the only application with models."""
