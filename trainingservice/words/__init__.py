"""Words and numbers as people read them."""
