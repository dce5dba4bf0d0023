"""The first page: what runs now, what needs attention, and all experiments."""
