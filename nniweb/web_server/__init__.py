"""The web server: Daphne's, with limits that hold while the bytes of a request arrive.

Daphne stores the whole body of a request before the application hears of it. Here the application begins at the headers
of a large one and takes its body piece by piece, so that it can refuse before anything is stored.
"""
