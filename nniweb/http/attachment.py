"""Headers of what is sent as a file, whose content and name are somebody else's."""

import re

from django.utils.http import content_disposition_header

_CONTROLS = re.compile(r"[\x00-\x1f\x7f]")


def as_attachment(name: str) -> dict[str, str]:
    """No browser shows it as a page, or guesses what it is. Characters of the name that no header can have are ``_``.
    """
    sendable = _CONTROLS.sub("_", name).encode(errors="replace").decode()
    return {"Content-Disposition": content_disposition_header(True, sendable) or "attachment", **SHOWN_AS_NOTHING}


#: Of content that is sent without a name for it.
SHOWN_AS_NOTHING = {"Content-Security-Policy": "sandbox; default-src 'none'", "X-Content-Type-Options": "nosniff"}
