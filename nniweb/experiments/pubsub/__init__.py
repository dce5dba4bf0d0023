"""How processes tell each other that an experiment has changed."""
