"""What a new experiment can start from: a sketch, the bundled examples, an experiment of before."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from django.conf import settings
from django.db.models import QuerySet

from nniweb.experiments.config import ConfigInvalid
from nniweb.experiments.config.fields.editing import document_text, write_fields
from nniweb.experiments.launch.cloning import clone_of
from nniweb.experiments.models import Cluster, Experiment, User

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
  name: Auto
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
    #: The experiment whose kept code it takes.
    code_of: str = ""
    #: Fields of the form: where the code is fetched from.
    git: Mapping[str, str] = field(default_factory=dict)
    #: What the person should know.
    notes: tuple[str, ...] = ()

    @property
    def heading(self) -> str:
        """Of the title what stands before its colon."""
        return self.title.partition(":")[0]

    @property
    def about(self) -> str:
        return self.title.partition(":")[2].strip()


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


def of_clone(experiment: Experiment, user: User) -> LaunchTemplate:
    """An earlier experiment to have again."""
    clone = clone_of(experiment, user)
    git = {f"git_{key}": value for key, value in clone.git.document().items()} if clone.git else {}
    return LaunchTemplate(experiment.public_id, experiment.name, clone.config, clone.base_directory, clone.code_of, git,
                          tuple(clone.notes))


def started_from(start: LaunchTemplate, experiment: Experiment) -> LaunchTemplate:
    """The same with the results of ``experiment`` to start from."""
    try:
        return replace(start, text=write_fields(start.text, {"startFrom": [experiment.public_id]}))
    except ConfigInvalid:  # in NNI's v1 form, which has no such field
        return replace(start, notes=(*start.notes, "The config is in NNI's v1 form, which cannot start from earlier "
                                     f"results. In the v2 form, add startFrom: [{experiment.public_id}]."))


def field_start(clusters: QuerySet[Cluster]) -> str:
    """What somebody who goes field by field begins with: the sketch without its comments, where there is a cluster. The
    first one of those that nothing is known to be wrong with.
    """
    sketch, _, platform = SKETCH.partition("trainingService")
    lines = [line for line in sketch.splitlines(keepends=True) if not line.startswith("#")]
    first = clusters.exclude(health__in=(Cluster.Health.AWAY, Cluster.Health.BAD)).first() or clusters.first()
    return "".join(lines) + (document_text({"cluster": first.name}) if first else f"trainingService{platform}")
