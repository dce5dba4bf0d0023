"""The launcher ``hydra/launcher=nniweb``: jobs of a multirun are trials of an experiment. Hydra finds it by itself."""
