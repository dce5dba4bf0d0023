"""Pages to look things up: platforms, reasons."""
