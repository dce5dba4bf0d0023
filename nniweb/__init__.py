"""NNI Web: the Django project."""

#: The wheel's, too. Between two releases it is that of the next one, with ``.dev0``.
__version__ = "0.2.0.dev0"
