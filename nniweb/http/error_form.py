"""Every error has one form: ``{"errors": [{"field": "...", "message": "..."}]}``, field "" where none is at fault.

Errors of a config file also have ``line`` and ``column`` where they are known.
"""

import logging
import re
from collections.abc import Iterator
from typing import Any

from django.core.exceptions import PermissionDenied, RequestDataTooBig, SuspiciousOperation
from django.http import Http404
from rest_framework import serializers, status
from rest_framework.exceptions import APIException
from rest_framework.response import Response
from rest_framework.views import exception_handler, set_rollback

from nniweb.database.outage_logs import first_line, is_database_away
from nniweb.experiments.clusters.editing import ClusterBusy
from nniweb.experiments.config.errors import ConfigInvalid
from nniweb.experiments.errors import Refused
from nniweb.experiments.secrets.sealing import CannotOpen
from nniweb.http.reason_serializer import ReasonSerializer
from nniweb.http.shortage import RETRY_AFTER, SHORT
from nniweb.storage.elsewhere import StorageFailed
from trainingservice.lasting_thread import in_short
from trainingservice.reasons import Reason, as_document
from trialkeeper.shortage import is_shortage

logger = logging.getLogger(__name__)

DATABASE_AWAY = ("The database cannot be reached, or does not accept writes, at the moment. Stored data is safe, and "
                 "running trials continue. Try again in a few seconds.")
STORAGE_AWAY = ("The server's storage of files cannot be used at the moment. Stored files are safe, and running trials "
                "continue. Try again in a minute.")


#: What Django REST framework says of a value, and how the messages about config files say it, after the field's name.
_SAID = [(re.compile(theirs), ours) for theirs, ours in (
    (r"This field is required\.", "is required."),
    (r"This field may not be null\.", "must not be null."),
    (r"This (?:field|list|selection|dictionary) may not be (?:blank|empty)\.", "must not be empty."),
    (r"Must be a valid boolean\.", "must be true or false."),
    (r"Not a valid string\.", "must be text."),
    (r"A valid (?:big)?integer is required\.", "must be a whole number."),
    (r"A valid number is required\.", "must be a number."),
    (r"String value too large\.", "has too many digits."),
    (r"Ensure this value is greater than or equal to (.+)\.", r"must be at least \1."),
    (r"Ensure this value is less than or equal to (.+)\.", r"must be at most \1."),
    (r"Ensure this field has no more than (\d+) (characters|elements)\.", r"must have at most \1 \2."),
    (r"Ensure this field has at least (\d+) (characters|elements)\.", r"must have at least \1 \2."),
    (r"Null characters are not allowed\.", "contains U+0000, which is not allowed in text."),
    (r"Value must be valid JSON\.", "must be JSON."),
    (r"Expected a list of items but got type .*", "must be a list."),
    (r"Expected a dictionary of items but got type .*|Invalid data\. Expected a dictionary, but got .*",
     "must be an object of JSON."))]


class ErrorSerializer(serializers.Serializer[Any]):
    """One thing that is wrong."""

    field = serializers.CharField(help_text="Path of the wrong field, in the spelling of the request; \"\" if the "
                                            "error is not about a field.")
    message = serializers.CharField(help_text="A sentence for a person.")
    reason = ReasonSerializer(required=False, help_text="The same as a code with arguments, if there is one.")
    line = serializers.IntegerField(required=False, allow_null=True, help_text="Line in the config's text, from 1.")
    column = serializers.IntegerField(required=False, allow_null=True)


class ErrorsSerializer(serializers.Serializer[Any]):
    """The body of every error."""

    errors = ErrorSerializer(many=True)  # type: ignore[assignment]  # DRF's own property of this name is not needed


class Conflict(APIException):
    """The wish makes no sense in the present state; nothing was changed."""

    status_code = status.HTTP_409_CONFLICT
    default_detail = "This cannot be done now."
    default_code = "conflict"


def answer_error(error: Exception, context: dict[str, Any]) -> Response:
    """The answer to any exception of a view. One that nobody expected is logged, and answered without its traceback."""
    if isinstance(error, ConfigInvalid):
        found = [{**_item(e.field, e.message), "line": e.line, "column": e.column} for e in error.errors]
        return _answer(400, found)
    if isinstance(error, Refused):
        # without a field at fault it is the present state that forbids it
        at_fault = any(field for field, _ in error.errors)
        return _answer(400 if at_fault else 409, [_item(field, message) for field, message in error.errors])
    if isinstance(error, ClusterBusy):
        return _answer(409, [_item("", error.reason)])
    if isinstance(error, CannotOpen):
        return _answer(409, [_item("", str(error))])
    if isinstance(error, Http404):
        return _answer(404, [_item("", "There is no such object, or you may not see it.")])
    if isinstance(error, PermissionDenied):
        return _answer(403, [_item("", str(error) or "You may not do this.")])
    if isinstance(error, RequestDataTooBig):
        return _answer(413, [_item("", f"The request is too large: {error}")])
    if isinstance(error, SuspiciousOperation):
        return _answer(400, [_item("", f"The request cannot be read: {error}")])
    if isinstance(error, APIException):
        response = exception_handler(error, context)  # for its headers: WWW-Authenticate, Retry-After
        assert response is not None  # it answers every APIException
        response.data = {"errors": list(_items(error.detail, ""))}
        return response
    if is_database_away(error):
        logger.warning("a request cannot be answered; the database's error: %s", first_line(error))
        response = _answer(503, [_item("", DATABASE_AWAY)])
        response["Retry-After"] = "5"
        return response
    if isinstance(error, StorageFailed):
        logger.warning("a request cannot be answered: %s", error)
        response = _answer(503, [_item("", STORAGE_AWAY)])
        response["Retry-After"] = "30"
        return response
    if is_shortage(error):
        logger.warning("a request cannot be answered: %s", in_short(error))
        response = _answer(503, [_item("", SHORT)])
        response["Retry-After"] = str(RETRY_AFTER)
        return response
    logger.error("%s failed", context["request"].path if context.get("request") else "a request", exc_info=error)
    return _answer(500, [_item("", "The server failed to process this request. Its log contains the error. The request "
                                   "itself may be correct.")])


def _answer(code: int, errors: list[dict[str, Any]]) -> Response:
    set_rollback()
    return Response({"errors": errors}, status=code)


def _item(field: str, message: str) -> dict[str, Any]:
    reason = {"reason": as_document(message)} if isinstance(message, Reason) else {}
    return {"field": field, "message": message, **reason}


def _items(detail: Any, field: str) -> Iterator[dict[str, Any]]:
    """DRF's nested details as a flat list."""
    if isinstance(detail, dict):
        for key, item in detail.items():
            inner = field if key == "non_field_errors" else f"{field}.{key}" if field else str(key)
            yield from _items(item, inner)
    elif isinstance(detail, list):
        for index, item in enumerate(detail):
            nested = isinstance(item, dict | list)
            yield from _items(item, f"{field}[{index}]" if nested else field)
    else:
        yield _item(field, _in_our_words(str(detail), field))


def _in_our_words(sentence: str, field: str) -> str:
    """A sentence of Django REST framework as those about config files are; others as they are."""
    for theirs, ours in _SAID:
        if (found := theirs.fullmatch(sentence)) is not None:
            return found.expand(ours) if field else f"The body {found.expand(ours)}"
    return sentence
