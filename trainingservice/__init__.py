"""Runs trial jobs on platforms. Knows nothing of Django, of tuners or of web pages."""

from trainingservice.moved_names import find_moved_modules

find_moved_modules()
