"""NNI's own REST interface for one experiment, for the tools that people have: its Python client, nnictl."""
