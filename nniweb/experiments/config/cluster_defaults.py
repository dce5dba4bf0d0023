"""What experiments that name a cluster need not say, because its metadata say it (``trial_config``)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from trainingservice.words.spellings import fold


@dataclass(frozen=True)
class ClusterDefaults:
    """In the words of experiment files (version 2): fields of the file's top, and trial options of the platform."""

    experiment: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)

    def fill_in(self, document: dict[str, Any], section: dict[str, Any] | None, options: dict[str, Any]) -> list[str]:
        """Put them where the document, its section and its options give nothing; the names of what was put in."""
        given = _given(document) | _given(section or {})
        put_in = [name for name in self.experiment if fold(name) not in given]
        document.update({name: self.experiment[name] for name in put_in})
        given = _given(options)
        more = [name for name in self.options if fold(name) not in given]
        options.update({name: self.options[name] for name in more})
        return [*put_in, *more]

    def without(self, names: Iterable[str]) -> ClusterDefaults:
        """Without these fields of the file's top."""
        left_out = set(names)
        return ClusterDefaults({name: value for name, value in self.experiment.items() if name not in left_out},
                               self.options)


def _given(document: Mapping[str, Any]) -> set[str]:
    return {fold(name) for name, value in document.items() if value is not None}
