"""Links from the pages into the documentation: the tag ``docs`` and the filter ``docs_linked``.

``docs-site`` has the pages (``make docs``; a wheel holds it). A test looks whether each link has its page and section.
"""

import re

from django import template
from django.urls import reverse
from django.utils.html import conditional_escape
from django.utils.safestring import SafeString, mark_safe

register = template.Library()

#: How texts of the server name a page: of reasons, of fields of the config file, of errors.
NAMED_PAGE = re.compile(r"\bdocs/((?:[a-z]+/)?[a-z-]+)\.md\b")


@register.simple_tag(name="docs")
def docs_address(place: str) -> str:
    """The address of ``gpus`` or of its section, ``gpus#out-of-memory``."""
    page, hash_sign, section = place.partition("#")
    return reverse("docs-page", args=[f"{page}.html"]) + hash_sign + section


@register.filter
def docs_linked(text: str | None) -> SafeString:
    """The text with each page that it names (``docs/gpus.md``) as a link to it; all else is escaped."""
    escaped = conditional_escape(text or "")
    return mark_safe(NAMED_PAGE.sub(lambda found: f'<a href="{docs_address(found[1])}">{found[0]}</a>',  # noqa: S308
                                    escaped))
