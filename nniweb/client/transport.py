"""What experiments and trials need of the client: requests to its server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol


class Transport(Protocol):
    """``connection.Client`` is one, and says what the members do."""

    server: str

    def get(self, path: str, *, patience: float | None = None, **query: Any) -> Any: ...

    def get_all(self, path: str, **query: Any) -> list[Any]: ...

    def change(self, method: str, path: str, body: Any = None, *, may_repeat: bool = False) -> Any: ...

    def stream(self, path: str, **query: Any) -> Iterator[bytes]: ...
