"""Search spaces, tuners, assessors, and the process they run in. Knows nothing of Django."""
