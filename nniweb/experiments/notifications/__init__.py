"""Who is told of what, and the queue of messages."""
