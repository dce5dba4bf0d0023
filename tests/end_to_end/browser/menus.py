"""The menu in the line of an experiment."""

from __future__ import annotations

from typing import Any


def in_menu(page: Any, name: str, role: str = "button") -> Any:
    """What the menu has by this name; opens it."""
    menu = page.locator("#controls details.menu")
    if menu.get_attribute("open") is None:
        menu.locator("summary").click()
    return menu.get_by_role(role, name=name)
