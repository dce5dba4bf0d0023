"""The reasons of rows as REST tells them."""

from __future__ import annotations

from typing import Any

from nniweb.experiments.lifecycle.reason_columns import document


def reason_document(code: str, arguments: dict[str, Any]) -> dict[str, Any] | None:
    """``{"code": "quota", "whose": ...}``; None where there is nothing to say."""
    return document(code, arguments)
