"""What the real rest-server's code answered. Where it comes from: tests/recordings/openpai/README.md."""

import copy
import json
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "recordings" / "openpai"


def recorded(name):
    return json.loads((FOLDER / f"{name}.json").read_text())


def documents():
    """What was changed (as text), the document, the status."""
    found = recorded("documents")
    for row in found["answers"]:
        document = copy.deepcopy(found["base"])
        *parents, last = row["path"]
        place = document
        for part in parents:
            place = place[part]
        value = row["times"][0] * row["times"][1] if "times" in row else row.get("value")
        if row.get("removed"):
            place.pop(last, *([] if isinstance(place, list) else [None]))
        elif isinstance(place, list) and last == len(place):
            place.append(value)
        else:
            place[last] = value
        shown = "removed" if row.get("removed") else json.dumps(value)[:60]
        yield f"{'.'.join(map(str, row['path']))} {shown}", document, row["status"]
