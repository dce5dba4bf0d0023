"""The template filter ``markdown``: text that people write, as HTML that does nothing but show it."""

import nh3
from django import template
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock, table

register = template.Library()

#: Characters; what is behind them is shown as it was written. REST takes as many as a text.
LONGEST = 100_000
#: Parts that the tables of one text may have; behind them no table is read. Each row gets all columns of its table, so
#: that a short text can stand for millions of cells.
MOST_PARTS_OF_TABLES = 100_000
#: Columns of a table.
MOST_COLUMNS = 200
#: No images: they would be fetched from elsewhere, which tells who reads a page.
_TAGS = {"a", "blockquote", "br", "code", "em", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p", "pre", "s", "strong",
         "table", "tbody", "td", "th", "thead", "tr", "ul"}
_ATTRIBUTES = {"a": {"href", "title"}, "ol": {"start"}}
_SCHEMES = {"http", "https", "mailto"}
#: Headings begin below those of the page.
_LEVELS = {"h1": "h3", "h2": "h4", "h3": "h5", "h4": "h6", "h5": "h6", "h6": "h6"}

_TABLES = "parts of tables"


def _table(state: StateBlock, line: int, end: int, silent: bool) -> bool:
    """The reader's own rule, within limits for all tables of a text."""
    so_far = state.env.get(_TABLES, 0)
    if so_far > MOST_PARTS_OF_TABLES or state.src.count("|", state.bMarks[line], state.eMarks[line]) > MOST_COLUMNS:
        return False
    before = len(state.tokens)
    if not table(state, line, end, silent):
        return False
    state.env[_TABLES] = so_far + len(state.tokens) - before
    return True


_reader = MarkdownIt("commonmark", {"html": False, "maxNesting": 20}).enable(["table", "strikethrough"])
_reader.block.ruler.at("table", _table, {"alt": ["paragraph", "reference"]})


@register.filter
def markdown(text: str | None) -> SafeString:
    """CommonMark with tables. Thread-safe: what a reading needs is its own."""
    tokens = _reader.parse((text or "")[:LONGEST])
    for token in tokens:
        token.tag = _LEVELS.get(token.tag, token.tag)
    html = _reader.renderer.render(tokens, _reader.options, {})
    return mark_safe(nh3.clean(html, tags=_TAGS, attributes=_ATTRIBUTES, url_schemes=_SCHEMES,  # noqa: S308 (it is clean)
                               link_rel="noopener noreferrer nofollow"))
