"""What a person could do next with an experiment, from its counts alone: no query of its own."""

from dataclasses import dataclass

from nniweb.experiments.models import Experiment
from nniweb.experiments.models.experiment import ExperimentStatus
from nniweb.experiments.results.outcome import Outcome, outcome_of
from nniweb.experiments.results.progress import Progress
from trainingservice.trial_job_status import TrialJobStatus

#: Where a step is taken.
MORE, CLONE, PARAMETERS, FAILURES = "more", "clone", "parameters", "failures"
#: With fewer ended trials nothing is said about how the search goes.
FEWEST = 10
#: A best trial in this last part of all trials came late.
LATE = 0.8


@dataclass(frozen=True)
class NextStep:
    """One or two sentences, and where it is done: one of the places above, "" for nowhere."""

    message: str
    where: str = ""


def next_steps(experiment: Experiment, progress: Progress) -> list[NextStep]:
    """The most useful first, two at most."""
    if experiment.is_finished:
        return _of_ended(experiment, progress)[:2]
    failed = progress.counts[TrialJobStatus.FAILED.value]
    steps = []
    if experiment.status == ExperimentStatus.PAUSED:
        steps.append(NextStep("The experiment is paused. Resume it to start further trials."))
    if failed and 2 * failed >= progress.ended:
        steps.append(NextStep(f"{failed} of {progress.ended} ended trials failed. Correct the most frequent cause "
                              "first.", FAILURES))
    since = _since_best(progress)
    if since is not None and _searches(experiment) and progress.ended >= FEWEST and 2 * since >= progress.ended:
        steps.append(NextStep(f"The last {since} trials brought no better result. See where the good values are; a "
                              "narrower search space may help.", PARAMETERS))
    if not steps and progress.best_trial_id is None and not progress.front:
        steps.append(NextStep("No trial has a result yet. This page shows results as they come."))
    return steps[:2] or [NextStep("The search goes on. Nothing needs to be done.")]


def _of_ended(experiment: Experiment, progress: Progress) -> list[NextStep]:
    outcome = outcome_of(experiment, progress)
    failed = progress.counts[TrialJobStatus.FAILED.value]
    if outcome is Outcome.FAILED and experiment.status == ExperimentStatus.ERROR:
        most = experiment.max_trial_number
        goes_on = "resume the experiment" if most is None or experiment.next_sequence_id < most else "run more trials"
        return [NextStep(f"No trial succeeded. Correct the cause, then {goes_on}. To change its command or uploaded "
                         "code, launch a copy.", CLONE)]
    if outcome is Outcome.FAILED:
        return [NextStep("No trial succeeded. Correct the cause, then launch a copy of the experiment.", CLONE)]
    if outcome is Outcome.NO_RESULT:
        return [NextStep("No trial reported a result. The trial's code calls nni.report_final_result.", CLONE)]
    steps = []
    if experiment.status == ExperimentStatus.STOPPED:
        steps.append(NextStep("The experiment was stopped. Resume it to continue the search."))
    since = _since_best(progress)
    if since is not None and progress.total >= FEWEST:
        if progress.best_sequence_id is not None and progress.best_sequence_id >= LATE * progress.total:
            steps.append(NextStep(f"The best result came late, in trial {progress.best_sequence_id} of "
                                  f"{progress.total}. More trials may improve it.", MORE))
        elif _searches(experiment) and 2 * since >= progress.total:
            steps.append(NextStep(f"The last {since} trials brought no better result. A copy with a narrower search "
                                  "space around the good values may find one.", PARAMETERS))
    if failed:
        steps.append(NextStep(f"{failed} trial{'s' if failed > 1 else ''} failed. When the cause is corrected, they "
                              "can be run again.", FAILURES))
    return steps or [NextStep("The search is complete. Run more trials, or use the best parameters.", MORE)]


def _searches(experiment: Experiment) -> bool:
    """Whether the server chooses the points; a program outside of it looks where it likes."""
    return not experiment.has_external_tuner


def _since_best(progress: Progress) -> int | None:
    """How many trials after the best one have run to their end, at least; None where there is none, as with several
    objectives. Those that wait, run or were cancelled brought nothing because they could not. Of the best proposal no
    replicate counts.
    """
    if progress.best_sequence_id is None:
        return None
    cancelled = sum(progress.counts[status.value] for status in (TrialJobStatus.USER_CANCELED,
                                                                 TrialJobStatus.SYS_CANCELED))
    return max(0, progress.ended - cancelled - (progress.best_replicates or 1) - progress.best_sequence_id)
