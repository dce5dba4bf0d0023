"""NNI Web: the Django project."""
