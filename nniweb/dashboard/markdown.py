"""The template filter ``markdown``: text that people write, as HTML that does nothing but show it."""

import nh3
from django import template
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt

register = template.Library()

#: Characters; what is behind them is shown as it was written. REST takes as many as a text.
LONGEST = 100_000
#: No images: they would be fetched from elsewhere, which tells who reads a page.
_TAGS = {"a", "blockquote", "br", "code", "em", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p", "pre", "s", "strong",
         "table", "tbody", "td", "th", "thead", "tr", "ul"}
_ATTRIBUTES = {"a": {"href", "title"}, "ol": {"start"}}
_SCHEMES = {"http", "https", "mailto"}
#: Headings begin below those of the page.
_LEVELS = {"h1": "h3", "h2": "h4", "h3": "h5", "h4": "h6", "h5": "h6", "h6": "h6"}

_reader = MarkdownIt("commonmark", {"html": False, "maxNesting": 20}).enable(["table", "strikethrough"])


@register.filter
def markdown(text: str | None) -> SafeString:
    """CommonMark with tables. Thread-safe: what a reading needs is its own."""
    tokens = _reader.parse((text or "")[:LONGEST])
    for token in tokens:
        token.tag = _LEVELS.get(token.tag, token.tag)
    html = _reader.renderer.render(tokens, _reader.options, {})
    return mark_safe(nh3.clean(html, tags=_TAGS, attributes=_ATTRIBUTES, url_schemes=_SCHEMES,  # noqa: S308 (it is clean)
                               link_rel="noopener noreferrer nofollow"))
