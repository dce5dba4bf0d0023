"""The mail server as one address: ``smtp://user:password@host:587``."""

from typing import Any
from urllib.parse import unquote, urlsplit

#: How the conversation is encrypted, by the address's scheme, with the port that is usual for it.
_SCHEMES = {"smtp": 25, "smtp+starttls": 587, "smtps": 465}
#: Seconds that a connection, and each answer of the server, may take.
PATIENCE = 15


def mail_settings(url: str) -> dict[str, Any]:
    """Django's settings for it; none of them for "". Raises ValueError with what is wrong, without the password."""
    if not url:
        return {}
    form = "write smtp+starttls://user:password@host:587 (smtps:// for TLS from the beginning, smtp:// for none)"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ValueError(f"is not the address of a mail server; {form}, with %-escapes for special "
                         "characters") from None
    if parts.scheme not in _SCHEMES or not parts.hostname or parts.path.strip("/") or parts.query or parts.fragment:
        raise ValueError(f"is not the address of a mail server; {form}")
    return {
        "EMAIL_BACKEND": "django.core.mail.backends.smtp.EmailBackend", "EMAIL_HOST": parts.hostname,
        "EMAIL_PORT": port or _SCHEMES[parts.scheme], "EMAIL_HOST_USER": unquote(parts.username or ""),
        "EMAIL_HOST_PASSWORD": unquote(parts.password or ""), "EMAIL_USE_TLS": parts.scheme == "smtp+starttls",
        "EMAIL_USE_SSL": parts.scheme == "smtps", "EMAIL_TIMEOUT": PATIENCE,
    }
