"""The names that parameters have on a command line: flat, those of nested choices with dots."""

from collections.abc import Mapping
from typing import Any

from nniweb.tuning.search_space.space import NAME_KEY
from trialkeeper.command_template import LONGEST_NAME


def names_in_space(space: Mapping[str, Any], prefix: str = "") -> list[str]:
    """All names that trials of a search space (as JSON, without problems) may have, in its order. Those that are too
    long for a command are left out, with all that begin with them.
    """
    found: dict[str, None] = {}
    for key, value in space.items():
        name = f"{prefix}{key}"
        if len(name) > LONGEST_NAME:
            continue
        if not isinstance(value, dict):
            found[name] = None
            continue
        is_choice = value.get("_type") == "choice" and isinstance(value.get("_value"), list)
        options = value["_value"] if is_choice else [] if "_type" in value else [value]
        inner = [option for option in options if isinstance(option, dict)]
        if len(inner) < len(options) or not options or any(NAME_KEY in option for option in inner):
            found[name] = None
        for option in inner:
            members = {key: item for key, item in option.items() if key != NAME_KEY}
            found |= dict.fromkeys(names_in_space(members, f"{name}."))
    return list(found)
