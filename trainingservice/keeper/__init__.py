"""The service's side of keepers: how they are built, started, reached and understood."""
