"""How log lines name several trials."""

from collections.abc import Iterable

from trialkeeper.whole_number import whole_number


def trials_in_words(numbers: Iterable[int]) -> str:
    """``[3]``: "trial 3"; ``[3, 4, 5, 9]``: "trials 3-5, 9"."""
    stretches: list[list[int]] = []
    for number in sorted(numbers):
        if stretches and number == stretches[-1][1] + 1:
            stretches[-1][1] = number
        else:
            stretches.append([number, number])
    text = ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in stretches)
    return f"trial {text}" if whole_number(text) is not None else f"trials {text}"
