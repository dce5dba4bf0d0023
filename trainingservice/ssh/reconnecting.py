"""Pauses between tries to connect to a machine."""

#: First and longest pause before the next attempt to connect, in seconds; for faults that only a person can mend.
RECONNECT, RECONNECT_AFTER_REFUSAL = (0.5, 60.0), (30.0, 600.0)


def growing_pause(failures: int, limits: tuple[float, float], chance: float) -> float:
    """Seconds to wait after so many failures before this one, within ``limits``: first and longest pause.

    ``chance``, from 0 to 1, takes away up to a half, so that many machines do not all come back at one moment.
    """
    first, longest = limits
    return min(longest, first * 2.0 ** min(failures, 16)) * (0.5 + 0.5 * chance)
