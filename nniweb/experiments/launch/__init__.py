"""From a config to an experiment that can run, with its code."""
