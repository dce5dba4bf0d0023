"""How a server comes up."""
