"""The worked examples of docs/platforms/command.md, as settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from trainingservice.command.config import CommandClusterSettings

PAGE = Path(__file__).resolve().parents[3] / "docs" / "platforms" / "command.md"


def settings_of(chapter: str, **more: Any) -> CommandClusterSettings:
    """Those of the chapter whose heading begins so; ``more`` changes some, by their names in Python."""
    [text] = [text for text in PAGE.read_text().split("\n## ") if text.startswith(chapter)]
    section = yaml.safe_load(text.split("```yaml\n")[1].split("```")[0])["trainingService"]
    fields = {field.alias for field in CommandClusterSettings.model_fields.values()}
    given = CommandClusterSettings(**{name: value for name, value in section.items() if name in fields})
    return given.model_copy(update=more)
