"""What is wrong with what somebody wants: raised by every command, shown by page, REST and command line."""


class Refused(Exception):
    """The wish cannot be met. ``errors`` is a list of (field, sentence); field "" where none is at fault."""

    def __init__(self, message: str, field: str = "") -> None:
        super().__init__(message)
        self.errors = [(field, message)]

    @classmethod
    def for_fields(cls, errors: list[tuple[str, str]]) -> "Refused":
        refused = cls(errors[0][1], errors[0][0])
        refused.errors = errors
        return refused
