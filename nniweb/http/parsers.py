"""JSON bodies: of a bearable size, with text that every database takes."""

from collections.abc import Mapping
from typing import IO, Any

from django.conf import settings
from rest_framework import parsers
from rest_framework.exceptions import APIException, ParseError

from trainingservice.limited_json import IN_NO_TEXT, json_fault
from trainingservice.limited_yaml import path_text

#: Nesting beyond this is no data of ours and would exhaust the interpreter's stack.
DEEPEST = 100


class BodyTooLarge(APIException):
    status_code = 413
    default_detail = "The body is too large."


class JSONParser(parsers.JSONParser):
    """As Django REST framework's; refuses a body that is too large or nested too deeply, NUL and lone surrogates."""

    def parse(self, stream: IO[Any], media_type: str | None = None,
              parser_context: Mapping[str, Any] | None = None) -> Any:
        request = (parser_context or {})["request"]
        length = int(request.META.get("CONTENT_LENGTH") or 0)
        if length > settings.DATA_UPLOAD_MAX_MEMORY_SIZE:
            raise BodyTooLarge(f"The body has {length} bytes; at most {settings.DATA_UPLOAD_MAX_MEMORY_SIZE} are "
                               "accepted. Upload code as a file of a multipart form.")
        try:
            data = super().parse(stream, media_type, parser_context)
            _check(data, [])
        except ParseError as error:  # its cause is Python's
            fault = json_fault(error.__context__) if isinstance(error.__context__, ValueError) else ""
            raise ParseError(f"The body is not JSON: {fault}." if fault else error.detail) from None
        except RecursionError:
            raise ParseError("The JSON is nested too deeply.") from None
        return data


def _check(value: Any, steps: list[str | int]) -> None:
    """``steps``: keys and indices on the way to the value. They become a text where one is told, and not before."""
    if len(steps) > DEEPEST:
        raise RecursionError
    if isinstance(value, dict):
        for key, item in value.items():
            _check_text(key, steps)
            steps.append(key)
            _check(item, steps)
            steps.pop()
    elif isinstance(value, list):
        for index, item in enumerate(value):
            steps.append(index)
            _check(item, steps)
            steps.pop()
    elif isinstance(value, str):
        _check_text(value, steps)


def _check_text(text: str, steps: list[str | int]) -> None:
    if (bad := IN_NO_TEXT.search(text)) is not None:
        where = path_text(tuple(steps)).encode("ascii", "backslashreplace").decode()
        said = (f"The text of {where or 'the body'} contains the character U+{ord(bad[0]):04X}, which is not allowed "
                "in text.")
        raise ParseError({where: said}) if where else ParseError(said)
