"""Pauses between tries to connect to a machine."""

#: First and longest pause before the next attempt to connect, in seconds; for faults that only a person can mend.
RECONNECT, RECONNECT_AFTER_REFUSAL = (0.5, 60.0), (30.0, 600.0)
