"""What the benchmark of the search's quality is made of: objectives, searchers, and runs of them."""
