"""Django's SQLite backend with one addition: write transactions of this process queue up fairly."""
