"""What is wrong with a code variant that somebody gives."""

from trainingservice.words.shown_value import shown


class VariantRefused(Exception):
    """``field``: "patch" or "files", the part of the request that it is about. The text is a sentence and names the
    path, where there is one.
    """

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


def of_path(field: str, path: str, problem: str) -> VariantRefused:
    """``problem``: what is wrong with the path or its file, as the rest of a sentence that begins with the path."""
    return VariantRefused(field, f"{shown(path, 280)} {problem}")
