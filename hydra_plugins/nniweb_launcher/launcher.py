"""The launcher. Hydra loads this file whenever a program with ``@hydra.main`` starts, so it imports the client later.
It is loaded before it is in ``sys.modules``, where dataclasses look for annotations that are texts.

The experiment has the tuner External; each job is a proposal whose key is the job's number. What a multirun must
remember is one small file in its sweep folder.
"""

import atexit
import json
import logging
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional

from hydra.core.config_store import ConfigStore
from hydra.core.utils import JobReturn, JobStatus, configure_log, filter_overrides, setup_globals
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf, open_dict

if TYPE_CHECKING:
    from nniweb.client import Experiment

log = logging.getLogger(__name__)

#: In the sweep folder: which experiment runs the jobs of this multirun.
NOTE = "nniweb.json"
#: Seconds between two looks for results.
LOOK_EVERY = 2.0
#: Overrides of the person's command that concern the multirun, and not its jobs.
_OF_MULTIRUN = ("hydra.launcher", "hydra/launcher", "hydra.sweeper", "hydra/sweeper", "hydra.sweep", "hydra.mode",
                "hydra.run.dir", "hydra.job.num", "hydra.job.id")


@dataclass
class NNIWebLauncherConf:
    """What can be set as ``hydra.launcher.NAME``."""

    _target_: str = "hydra_plugins.nniweb_launcher.launcher.NNIWebLauncher"
    # A config file of an experiment: trainingService, trialConcurrency and other fields.
    config: Optional[str] = None  # noqa: UP045  # OmegaConf reads it
    # The folder that is sent as code; else the script's, or of a module the present one.
    code: Optional[str] = None  # noqa: UP045
    # What runs a program of Python on the platform.
    python: str = "python3"


ConfigStore.instance().store(group="hydra/launcher", name="nniweb", node=NNIWebLauncherConf, provider="nniweb")


class NNIWebLauncher(Launcher):
    """Runs the jobs of a multirun as trials of one experiment."""

    def __init__(self, config: str | None, code: str | None, python: str) -> None:
        self._file, self._code, self._python = config, code, python
        self._experiment: Experiment | None = None
        self._all_is_well = False

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        self._context, self._config = hydra_context, config

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        """Propose the jobs and wait for their results. Raises what the client raises; the trials go on then, and the
        same command with the same sweep folder goes on with them.
        """
        from nniweb.client.hydra_jobs import parameters_of, search_space_of, with_all_names
        setup_globals()
        configure_log(self._config.hydra.hydra_logging, self._config.hydra.verbose)
        folder = Path(str(self._config.hydra.sweep.dir))
        folder.mkdir(parents=True, exist_ok=True)
        self._all_is_well = False
        jobs = [parameters_of(list(overrides)) for overrides in job_overrides]
        experiment = self._found(folder)
        if experiment is None:
            experiment = self._launched(folder, search_space_of(jobs))
        elif not experiment.has_ended:
            before = experiment.refresh().document["search_space"]
            space = search_space_of(jobs, before)
            if space != before:
                experiment.change(search_space=space)
        space = experiment.refresh().document["search_space"]
        keys = [str(initial_job_idx + place) for place in range(len(jobs))]
        for overrides, key in zip(job_overrides, keys, strict=True):
            log.info("\t#%s : %s", key, " ".join(filter_overrides(overrides)))
        for first in range(0, len(jobs), 1000):
            some = slice(first, first + 1000)
            experiment.propose(*(with_all_names(job, space) for job in jobs[some]), keys=keys[some])
        ends = self._ends(experiment, set(keys))
        self._all_is_well = True
        return [self._job_return(experiment, int(key), list(overrides), ends.get(key))
                for overrides, key in zip(job_overrides, keys, strict=True)]

    def _found(self, folder: Path) -> "Experiment | None":
        """The experiment of this multirun, also of an earlier process with the same sweep folder."""
        from nniweb.client import Client
        if self._experiment is None and (folder / NOTE).exists():
            note = json.loads((folder / NOTE).read_text(encoding="utf-8"))
            self._experiment = Client(note["server"]).experiment(note["experiment"])
            log.info("Going on with %s", self._experiment.url)
            atexit.register(self._complete)
        return self._experiment

    def _launched(self, folder: Path, search_space: Mapping[str, Any]) -> "Experiment":
        from nniweb.client import Client
        script, code = self._program()
        command = " ".join([self._python, "-m", "nni.hydra", *map(shlex.quote, [*script, *self._options()])])
        name = str(self._config.hydra.job.name)
        given = self._given()
        tuner = {**(given.get("tuner") or {}), "name": "External"}
        config = {"experimentName": name, "trialConcurrency": 1, "trainingService": {"platform": "local"}, **given,
                  "tuner": tuner, "searchSpace": dict(search_space), "trialCommand": command}
        client = Client()
        self._experiment = experiment = client.launch(config, code=code)
        (folder / f".{NOTE}").write_text(json.dumps({"server": client.server, "experiment": experiment.id}),
                                         encoding="utf-8")
        (folder / f".{NOTE}").replace(folder / NOTE)
        log.info("The jobs are trials of %s", experiment.url)
        atexit.register(self._complete)
        return experiment

    def _given(self) -> dict[str, Any]:
        """What the config file says. Raises ValueError where it is none."""
        if self._file is None:
            return {}
        import yaml
        with open(self._file, encoding="utf-8") as file:
            given = yaml.safe_load(file)
        if not isinstance(given, dict):
            raise ValueError(f"{self._file}, which hydra.launcher.config names, is no config file of an experiment.")
        return given

    def _program(self) -> tuple[list[str], str]:
        """What follows ``python3``, and the folder that it needs."""
        spec = getattr(sys.modules["__main__"], "__spec__", None)
        if spec is not None:
            name = spec.name.removesuffix(".__main__")
            return ["-m", name], self._code or os.getcwd()
        script = Path(sys.argv[0]).resolve()
        code = Path(self._code).resolve() if self._code else script.parent
        if not script.is_relative_to(code):
            raise ValueError(f"{script} is not in the folder {code}, which hydra.launcher.code names.")
        return [str(script.relative_to(code))], str(code)

    def _options(self) -> list[str]:
        """Options and overrides of the person's command that hold for each job."""
        from hydra._internal.utils import get_args_parser
        given = get_args_parser().parse_args(sys.argv[1:])
        options = [f"--{name.replace('_', '-')}={value}" for name in ("config_path", "config_name", "config_dir")
                   if (value := getattr(given, name))]
        of_hydra = [override for override in self._config.hydra.overrides.hydra
                    if not override.lstrip("+~").startswith(_OF_MULTIRUN)]
        return [*options, *of_hydra]

    def _ends(self, experiment: "Experiment", keys: set[str]) -> dict[str, dict[str, Any]]:
        """The result of each job by its key, without those that an experiment which has ended does not have."""
        found: dict[str, dict[str, Any]] = {}
        after = -1
        while True:
            has_ended = experiment.refresh().has_ended
            results, after = experiment.results(after, wait=0.0 if has_ended else LOOK_EVERY, every=LOOK_EVERY)
            found |= {row["key"]: row for row in results if row["key"] in keys}
            if len(found) == len(keys) or (has_ended and not results):
                return found

    def _job_return(self, experiment: "Experiment", number: int, overrides: list[str], end: Mapping[str, Any] | None
                    ) -> JobReturn:
        from nniweb.client.hydra_jobs import returned
        config = self._context.config_loader.load_sweep_config(self._config, overrides)
        with open_dict(config):
            config.hydra.job.id = config.hydra.job.num = number
        job = JobReturn()
        job.overrides, job.task_name = overrides, str(config.hydra.job.name)
        job.hydra_cfg = OmegaConf.create({"hydra": config.hydra})
        job.working_dir = str(Path(str(config.hydra.sweep.dir)) / str(number))
        with open_dict(config):
            del config["hydra"]
        job.cfg = config
        if end is not None and end["status"] == "SUCCEEDED":
            job.status, job.return_value = JobStatus.COMPLETED, returned(experiment.trial(end["trial"]).final_value)
        else:
            said = f"it is {experiment.status}" if end is None else f"its trial {end['sequence_id']} is {end['status']}"
            job.status = JobStatus.FAILED
            job.return_value = RuntimeError(f"Job {number} has no result: {said}. See {experiment.url}")
        return job

    def _complete(self) -> None:
        """The program ends, so no jobs follow. After an error they may: with the same sweep folder."""
        from nniweb.client import ClientError
        if self._experiment is None or not self._all_is_well:
            return
        try:
            self._experiment.propose(complete=True)
        except ClientError as error:
            log.warning("%s was not told that no jobs follow: %s", self._experiment.url, error)
