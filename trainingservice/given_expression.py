"""Regular expressions that people give, run by RE2: its time is in proportion to the text, whatever the expression.

It knows what Python's do but for conditions on what stands around a match (``(?=...)``, ``(?<!...)``) and groups that
are met again (``\\1``). ``\\d``, ``\\w`` and ``\\s`` are ASCII, and the end of the text is ``\\z``.
"""

from __future__ import annotations

import re2

#: Longest expression, in characters.
LONGEST = 1000


class GivenExpression:
    """May be used from any thread; while it looks, others run."""

    def __init__(self, expression: str) -> None:
        """Raises ValueError with what is wrong with it."""
        if len(expression) > LONGEST:
            raise ValueError(f"it is longer than {LONGEST} characters")
        options = re2.Options()
        options.log_errors = False
        try:
            self._compiled = re2.compile(expression, options)
        except re2.error as error:
            raise ValueError(_reason(error)) from None
        except UnicodeEncodeError:
            raise ValueError("it contains a character that is not allowed") from None

    def first_in(self, text: str) -> str | None:
        """The first match (its first group, where it has one that is not empty); None where there is none. ``$`` is the
        end of the text, or of its last line where that ends.
        """
        found = self._compiled.search(text.removesuffix("\n").encode("utf-8", "replace").decode())
        if found is None:
            return None
        return str(found[1] or found[0]) if self._compiled.groups else str(found[0])


def _reason(error: Exception) -> str:
    said = error.args[0] if error.args else ""
    return said.decode(errors="replace") if isinstance(said, bytes) else str(said)
