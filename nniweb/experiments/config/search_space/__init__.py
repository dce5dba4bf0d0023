"""What a file says about what is searched: the space, its constraints, and the points that are tried first."""
