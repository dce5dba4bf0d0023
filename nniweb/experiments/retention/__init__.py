"""What is kept for how long, how it is removed, how much room it takes."""
