"""What stands before every request, whoever answers it: whom it comes from, and whether it may come in the clear."""
