"""Step of a round that writes down what the platform says of its jobs, and what no keeper says of them."""
