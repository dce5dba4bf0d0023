"""What every answer over HTTP has in common: who asks, what was asked, forms of answers and errors."""
