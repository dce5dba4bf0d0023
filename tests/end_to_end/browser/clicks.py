"""How often a person clicks on their way: ``count_clicks(page)`` at its start, ``clicks(page)`` at its end."""

from typing import Any

#: Clicks, and choices from a list, which are one each. What is typed and dropped is none.
_COUNT = """for (const kind of ["click", "change"]) addEventListener(kind, (event) => {
    const counts = kind === "click" ? event.isTrusted && event.detail > 0 : event.target.tagName === "SELECT";
    if (counts) sessionStorage.clicks = Number(sessionStorage.clicks ?? 0) + 1;
}, true);"""


def count_clicks(page: Any) -> None:
    """Load the page anew and count from now on, on this page and those after it."""
    page.page.add_init_script(_COUNT)
    page.evaluate("delete sessionStorage.clicks")
    page.reload()


def clicks(page: Any) -> int:
    return int(page.evaluate("sessionStorage.clicks ?? 0"))
