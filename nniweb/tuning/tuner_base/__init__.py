"""What tuners are, and the parts that several of them share."""
