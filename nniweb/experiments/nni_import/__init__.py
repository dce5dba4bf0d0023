"""Experiments that NNI has kept, made into experiments of this server."""
