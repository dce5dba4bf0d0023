"""Runs trial jobs on platforms. Uses neither Django nor anything of ``nniweb``."""

from trainingservice.moved_names import find_moved_modules

find_moved_modules()
