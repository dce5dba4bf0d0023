"""What a new experiment can start from: a sketch, the bundled examples, an experiment of before."""

import functools
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings

from nniweb.experiments.models import Experiment

#: For people who come with a script of their own.
SKETCH = """\
experimentName: my experiment
# one trial, run in the code folder; it asks with nni.get_next_parameter() and answers with nni.report_final_result()
trialCommand: python3 train.py
trialConcurrency: 2
maxTrialNumber: 20
searchSpace:
  learning_rate: {_type: loguniform, _value: [0.0001, 0.1]}
  batch_size: {_type: choice, _value: [16, 32, 64]}
tuner:
  name: TPE
  classArgs: {optimize_mode: maximize}
trainingService:
  platform: local
"""


@dataclass(frozen=True)
class LaunchTemplate:
    name: str
    title: str
    text: str
    #: Where its code is on this server; "" where the person brings it.
    folder: str = ""


@functools.cache
def launch_templates() -> dict[str, LaunchTemplate]:
    """By name. The examples' titles are the headings of their own pages."""
    found = [LaunchTemplate("sketch", "A script of your own", SKETCH)]
    for config in sorted(Path(settings.BASE_DIR, "examples").glob("*/config*.yml")):
        name = config.parent.name
        title = _heading(config.with_name("README.md")) or name
        if config.stem != "config":
            name, title = f"{name}-{config.stem.removeprefix('config_')}", \
                f"{title.partition(':')[0]}, in the form of NNI {config.stem.removeprefix('config_').lstrip('v')}"
        found.append(LaunchTemplate(name, title, config.read_text(encoding="utf-8"), str(config.parent)))
    return {template.name: template for template in found}


def _heading(page: Path) -> str:
    try:
        return page.read_text(encoding="utf-8").partition("\n")[0].lstrip("# ").strip()
    except OSError:
        return ""


def from_experiment(experiment: Experiment) -> LaunchTemplate:
    """The file an experiment was launched with, its secrets masked, and where its code is."""
    return LaunchTemplate(experiment.public_id, experiment.name, experiment.config_text, experiment.code_folder)
