"""The cases of the conformance suite by subject; ``trainingservice.testing.conformance`` puts them together."""
