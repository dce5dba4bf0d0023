"""The page that launches: four steps in order, and what a chosen folder brings besides its code."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.nniweb.dashboard.test_page_words import in_node

Page = Callable[..., str]
CONFIG = "experimentName: mine\ntrialCommand: python3 fit.py\nsearchSpaceFile: search_space.json\n"
SPACE = '{"lr": {"_type": "uniform", "_value": [0, 1]}}'


def test_the_steps_stand_in_order_and_launch_is_always_in_sight(page: Page) -> None:
    html = page("/new/?template=sketch")
    steps = re.findall(r'<h2 id="step-\w+"><span class="number">(\d)</span> ([^<]+)</h2>', html)
    assert steps == [("1", "Code"), ("2", "What to search"), ("3", "Where"), ("4", "Check")]
    assert html.index('id="step-code"') < html.index('id="drop"') < html.index('id="step-what"') < html.index(
        'id="space"') < html.index('id="step-where"') < html.index('id="cluster"') < html.index('id="step-check"')
    bar = html[html.index('class="launch-bar"'):]
    assert 'value="launch"' in bar
    css = (Path(__file__).resolve().parents[3] / "static" / "css" / "forms.css").read_text()
    assert ".launch-bar { position: sticky; bottom: 0;" in css


def test_templates_are_cards_and_the_json_is_folded_away(page: Page) -> None:
    html = page("/new/")
    assert '<li><a href="?template=quadratic"><b>Quadratic</b> <span class="small">' in html
    assert re.search(r'<details class="space-json" id="space-twin"><summary', html)


@pytest.mark.parametrize(("files", "found"), [
    ({"config.yml": CONFIG, "search_space.json": SPACE, "fit.py": "import nni\nnni.get_next_parameter()\n"},
     ["config.yml", "search_space.json", "fit.py"]),
    # another yaml of that name, and the one that is an experiment's
    ({"config.yml": "database: x\n", "conf/mnist.yaml": CONFIG, "train.py": "print(1)\n"},
     ["conf/mnist.yaml", None, "train.py"]),
    # the one nearest to the folder itself
    ({"old/config.yml": CONFIG, "config.yaml": CONFIG, "old/train.py": "", "main.py": ""},
     ["config.yaml", None, "main.py"]),
    ({"search_space.json": "{not", "notes.md": "trialCommand: x", "deep/er/a.py": "from nni import get_next_parameter"},
     [None, None, "deep/er/a.py"]),
    ({}, [None, None, None])])
def test_a_folder_is_looked_through_for_its_experiment_file_space_and_script(
        tmp_path: Path, files: dict[str, str], found: list[str | None]) -> None:
    assert in_node(tmp_path, "new_experiment/folder_contents.js", "contentsOf", (
        f"await contentsOf(Object.entries({json.dumps(files)}).map(([path, text]) => "
        "({path, file: {size: text.length, text: async () => text}})))"
        ".then(({config, space, script}) => [config, space, script].map((one) => one && one.path))")) == found
