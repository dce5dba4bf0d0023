"""What the OpenAPI schema cannot find out by itself."""

import functools
import re
from typing import Any

from django.utils.translation import get_language
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.generators import SchemaGenerator

from nniweb.http.callers.authentication import SessionAuthentication, TokenAuthentication
from nniweb.storage.own_files import COMMAND


class TokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """Tells the schema's readers how to use a token."""

    target_class = TokenAuthentication
    name = "token"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {"type": "apiKey", "in": "header", "name": "Authorization",
                "description": f"`Token nniweb_...`, from your account page or `{COMMAND} token NAME`."}


class SessionScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """Tells the schema's readers of the session cookie."""

    target_class = SessionAuthentication
    name = "session"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {"type": "apiKey", "in": "cookie", "name": "sessionid"}


class KeptSchemaGenerator(SchemaGenerator):
    """The schema that everybody gets is made once in the life of the process: that takes a third of a second."""

    def get_schema(self, request: Any = None, public: bool = False) -> dict[str, Any]:
        if self.api_version or not public:
            made: dict[str, Any] = super().get_schema(request, public)  # type: ignore[no-untyped-call]
            return made
        return _schema_in(get_language())


@functools.lru_cache(maxsize=4)
def _schema_in(_language: str | None) -> dict[str, Any]:
    made: dict[str, Any] = SchemaGenerator().get_schema(public=True)  # type: ignore[no-untyped-call]
    return made


def add_errors(result: dict[str, Any], **_: Any) -> dict[str, Any]:
    """Every operation has a summary, and may answer with an error, always of the one form."""
    answer = {"description": "An error: not signed in, not allowed, not found, wrong input ...", "content": {
        "application/json": {"schema": {"$ref": "#/components/schemas/Errors"}}}}
    for operations in result["paths"].values():
        for operation in operations.values():
            operation["responses"].setdefault("default", answer)
            # lists of operations show summaries: the first sentence of the description is one
            operation.setdefault("summary", re.split(r"[.;:]\s|\.$", operation.get("description", ""), maxsplit=1)[0])
    return result
