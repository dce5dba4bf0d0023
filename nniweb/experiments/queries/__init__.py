"""What is read for a page, an answer or a file."""
