"""Runs trial jobs on platforms. Knows nothing of Django, of tuners or of web pages."""
