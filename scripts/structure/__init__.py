"""How the source is laid out: files per folder, circles of imports, arrows between folders."""
