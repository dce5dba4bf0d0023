"""The search space page shows only what works."""

import json
import re
from pathlib import Path

import pytest

from nniweb.tuning.search_space.parser import ALL_TYPES, parse_search_space

PAGE = (Path(__file__).resolve().parents[4] / "docs" / "search-space.md").read_text()
BLOCKS = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
POINTS = re.findall(r"`(\{.*?\})`(?= or|\.)", PAGE)


def test_every_json_block_is_a_search_space_and_every_point_shown_belongs_to_one() -> None:
    spaces = [parse_search_space(json.loads(block)) for block in BLOCKS]
    assert len(spaces) == 2
    assert len(POINTS) == 3
    for text in POINTS:
        assert any(space.contains(json.loads(text)) for space in spaces), text


@pytest.mark.parametrize("type_name", ALL_TYPES)
def test_every_type_is_described(type_name: str) -> None:
    assert f"| `{type_name}` |" in PAGE
