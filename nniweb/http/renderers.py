"""JSON that every reader can parse, whatever a trial reported."""

import json
import math
from typing import Any

from rest_framework.renderers import JSONRenderer
from rest_framework.utils.encoders import JSONEncoder


class ExactJSONRenderer(JSONRenderer):
    """Text survives exactly: NUL and lone surrogates go out as \\u escapes. A NaN or infinite number becomes null."""

    charset = None

    def render(self, data: Any, accepted_media_type: str | None = None, renderer_context: Any = None) -> bytes:
        if data is None:
            return b""
        try:
            text = json.dumps(data, cls=JSONEncoder, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
        except ValueError:  # rare, so the usual answer is not walked through twice
            text = json.dumps(_finite(data), cls=JSONEncoder, ensure_ascii=True, separators=(",", ":"))
        return text.encode("ascii")


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list | tuple) else value
