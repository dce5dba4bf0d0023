"""How far experiments are, and what their trials achieved."""
