"""Trials as command jobs of an Azure Machine Learning workspace."""
