"""A real service that a test starts, as a context manager: nothing of it stays where its start fails."""

from __future__ import annotations

from typing import Self


class RealService:
    """``with Service(...) as service:``. ``start`` returns it; ``stop`` also ends what was started in part."""

    def start(self) -> Self:
        raise NotImplementedError

    def stop(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.stop()
            raise

    def __exit__(self, *_: object) -> None:
        self.stop()
