"""Whole numbers in texts of others: headers, files, what commands print, forms."""

from typing import Optional, Union

#: More digits are no number: it would fit no column, and very long ones Python refuses to read.
MOST_DIGITS = 18


def whole_number(text: Union[str, bytes]) -> Optional[int]:
    """The number that a text is: ASCII digits, white space around them. None for everything else, never an error.

    ``str.isdigit`` also says yes to digits that ``int`` cannot read, such as a raised 2.
    """
    digits = text.decode("latin-1") if isinstance(text, bytes) else text
    digits = digits.strip()
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) <= MOST_DIGITS else None
