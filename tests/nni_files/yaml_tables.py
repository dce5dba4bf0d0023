"""Tables in YAML, which each process of a run of the tests reads when it loads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

#: libyaml's where there is one: ten times as fast.
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_table(path: Path) -> Any:
    return yaml.load(path.read_text(), LOADER)
