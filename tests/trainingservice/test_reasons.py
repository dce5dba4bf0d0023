"""Reasons: a sentence with the code and the arguments that programs look at."""

import ast
import json
import pickle
from pathlib import Path

import pytest

from trainingservice.errors import MustWait
from trainingservice.gpus.gpu_slots import GpuReading, GpuRequest, Impossible, Waits, choose_gpus
from trainingservice.reasons import (
    CODES,
    OF_CLUSTERS,
    OF_PLATFORMS,
    OTHER,
    PLATFORM,
    Reason,
    arguments_of,
    as_document,
    because_of,
    code_of,
    jobs_named_by,
    refusal,
    tells_of,
    together,
    with_end,
    with_more,
)
from trainingservice.remote.scheduling import MachineView, choose_machine

ROOT = Path(__file__).resolve().parents[2]
HELD = [{"gpu": 0, "jobs": ["ovy2pm6wxrk4"], "more": False}, {"gpu": 1, "jobs": [], "processes": 2}]
#: Arguments of each code as they occur, and a word of the sentence.
EXAMPLES = {
    "free_slot": ({}, "free slot"),
    "clusters_full": ({"clusters": [{"cluster": "lab", "code": "at_most_there", "most": 4},
                                    {"cluster": "cloud", "code": "unhealthy_there", "said": "It is away."}]},
                      "lab: has 4 trials, as many as upTo allows; cloud: cannot be used now (It is away)."),
    "chosen": ({"clusters": [{"cluster": "cloud", "code": "goes_after", "clusters": ["lab"]}]},
               "The other clusters: cloud: comes after lab, which has room."),
    "not_chosen": ({"by": "cost", "chosen": "lab"}, "a trial costs less on lab"),
    "drained": ({}, "gets no new trials"),
    "no_weight": ({}, "has weight 0, so it gets no new trials"),
    "not_listed": ({}, "was taken out of the experiment's list, so it gets no new trials"),
    "disabled_there": ({}, "disabled."),
    "refused_there": ({"said": "There is no such partition."}, "(There is no such partition)."),
    "no_worker_there": ({}, "no worker drives it"),
    "unhealthy_there": ({"said": "It is away."}, "(It is away)."),
    "at_most_there": ({"most": 4}, "has 4 trials"),
    "limit_there": ({"most": 1}, "has 1 trial of all experiments"),
    "gpus_there": ({"asked": 4, "most": 2, "free": 1}, "asks for 4 GPUs, and no machine has more than 2 GPUs."),
    "waits_there": ({"count": 1, "said": "It waits."}, "1 trial of the experiment waits there already (It waits)."),
    "goes_after": ({"clusters": ["lab", "slurm"]}, "comes after lab and slurm, which have room."),
    "moves": ({"cluster": "lab", "said": "It is away."}, "The trial leaves lab, where it has not begun"),
    "frozen": ({"by": "ada"}, "Frozen by ada."),
    "frozen_with_experiment": ({}, "the experiment was paused"),
    "gave_way": ({"priority": 5}, "higher priority (5) needs its place"),
    "gives_way": ({"priority": 5}, "Waits because trials of higher priority (5)"),
    "preempting": ({"count": 2, "said": "It waits."}, "2 trials of lower priority are being frozen"),
    "priority_quota": ({"asked": 5, "most": 0}, "up to 0, not 5"),
    "cannot_freeze": ({"platform": "theirs"}, "Trials on theirs cannot be frozen"),
    "experiment_held": ({"status": "PAUSED"}, "PAUSED"),
    "budget": ({"whose": {"kind": "person", "name": "ada"}, "unit": "gpu_hours", "most": 2.5, "left": 0,
                "period": "month", "again": "2026-12-01"}, "of 2.5 GPU-hours a month, 0 are left. It begins anew on"),
    "no_budget": ({"whose": {"kind": "token", "name": "agent"}, "unit": "money", "period": "total"},
                  "The budget of the token agent allows no money"),
    "quota": ({"whose": {"kind": "person", "name": "ada"}, "unit": "gpus", "most": 4, "asked": 1}, "at most 4 GPUs"),
    "experiment_quota": ({"whose": {"kind": "group", "name": "vision"}, "most": 1, "unfinished": 1},
                         "The quota of the group vision allows 1 experiment"),
    "gpu_quota": ({"whose": {"kind": "each_person", "name": ""}, "most": 2, "asked": 4},
                  "that each person has allows 2"),
    "leash_trials": ({"token": "agent", "most": 2}, 'the leash of the token "agent": at most 2 trials at a time.'),
    "leash_cluster": ({"token": "agent", "cluster": "cloud", "allowed": ["lab"]}, "may use the clusters lab, not"),
    "leash_forbids": ({"token": "agent", "wish": "share an experiment"}, "with which it cannot share an experiment."),
    "token_ended": ({"token": "agent", "by": "ada"}, "was ended by ada."),
    "quota_too_small": ({"whose": {"kind": "person", "name": "ada"}, "most": 4, "asked": 8}, "8 GPUs"),
    "gpu_held": ({"machine": "m", "asked": 2, "free": 0, "held": HELD}, "GPU 0 is held by ovy2pm6wxrk4"),
    "machines_busy": ({"asked": 1, "machines": [{"said": "n is away"}, {"machine": "m", "free": 0, "held": HELD}]},
                      "n is away; no GPU of machine m is free"),
    "nodes_busy": ({"nodes": 3, "free": 1, "asked": 2, "machines": [{"said": "n is away"}]},
                   "Waits for 3 machines with 2 GPUs each, of which 1 has room: n is away."),
    "too_few_machines": ({"nodes": 3, "fit": 2, "asked": 0, "machines": []}, "the cluster has 2 that can ever run"),
    "rank_failed": ({"rank": 2, "machine": "m", "said": "The command ended with exit code 1.", "last_lines": "boom"},
                    "Rank 2 on machine m failed, which ended all ranks of the trial. The command ended with exit code "
                    "1. It wrote last: boom"),
    "machine_away": ({"machine": "m", "said": "It is away."}, "m: It is away."),
    "every_machine": ({"machines": [{"machine": "m", "code": "connection_refused", "said": "It refuses."}],
                       "count": 3, "common": "connection_refused"},
                      "Every machine refuses connections (m: It refuses; and 2 more)."),
    "some_machines": ({"machines": [{"machine": "m", "code": "connection_refused", "said": "It refuses."}], "bad": 2,
                       "count": 5}, "2 of 5 machines cannot be used (m: It refuses; and 1 more)."),
    "cluster_degraded": ({"cluster": "lab", "said": "1 of 5 machines cannot be used (m: It refuses)."},
                         "The cluster lab is degraded. 1 of 5"),
    "equal_failures": ({"count": 5, "said": "exit code 1."}, "5 trials in a row failed for the same reason"),
    "checkpoint_failed": ({"name": "step-3", "kept": True, "problem": "too_large", "detail": "3 GB"},
                          'Its checkpoint "step-3" could not be kept, because it is larger than maxSize'),
    "checkpoint_quota": ({"whose": {"kind": "person", "name": "ada"}, "most": 20},
                         "The quota of ada allows 20 GB of checkpoints"),
    "warm_start": ({"machine": "m", "modules": 1, "memory": 187 * 2**20},
                   "a process of 187.0 MB has imported 1 module, and is forked"),
    "plain_start": ({"machine": "m", "cause": "threads", "detail": "3"},
                    "leave threads running after they were imported: 3."),
    "metrics_not_found": ({"trial": 3, "problem": "no_result", "detail": "loss"},
                          "Trial 3 ended well, but its result was not found. Found: loss."),
    "place_lost": ({"said": "The node failed."}, "place in which the trial ran is gone. The node failed."),
    "place_idle": ({}, "no trial came for it"),
    "place_failures": ({}, "two trials in a row failed in it"),
    "place_limit": ({}, "the time limit of its job was near"),
    "place_unclean": ({}, "could not be removed"),
    "place_not_needed": ({}, "needed it no more"),
    "checkpoint_resumed": ({"name": "step-3", "step": 3, "attempt": 1}, "(step 3) of attempt 1"),
    "no_checkpoints": ({"platform": "kubernetes"}, "On kubernetes the keepers of trials do not call"),
    "auto_model": ({"most": 150}, "up to 150 results"),
    "auto_many_results": ({"most": 150}, "more than 150 results"),
    "auto_many_running": ({"most": 100}, "More than 100 trials run at once"),
    "auto_large_space": ({"columns": 90, "most": 80}, "has 90 numbers and options"),
    "auto_objectives": ({"objectives": 2, "most": 300, "population": True}, "more than 300 results"),
    "auto_not_installed": ({"wanted": "GP", "missing": ["sklearn"]}, "not installed on the server (sklearn)"),
    "earlier_not_compared": ({"compared": 2}, "too few results yet"),
    "earlier_agrees": ({"compared": 9, "correlation": 0.75}, "(rank correlation 0.75) and lead"),
    "earlier_disagrees": ({"compared": 9, "correlation": -0.25}, "-0.25), so they are not used now"),
    "cluster_away": ({"cluster": "lab", "said": "It is away."}, "The cluster lab cannot be used now. It is away."),
    "machine_full": ({"machine": "m", "trials": 2}, "m runs 2 trial(s)"),
    "machine_short": ({"machine": "m", "said": "No process is to spare."}, "No process is to spare."),
    "machine_kept": ({"machine": "m"}, "m is reserved"),
    "gpus_not_seen": ({"machine": "m", "asked": 2}, "Waits for 2 GPU(s): the GPUs of machine m are being read."),
    "gpus_unread": ({"machine": "m", "asked": 2, "error": "No driver."}, "machine m cannot be read: No driver."),
    "no_container_engine": ({"machine": "m", "engine": "podman or docker", "image": "localhost/train:1"},
                            "machine m has no podman or docker on its PATH"),
    "container_engine_fails": ({"machine": "m", "engine": "docker", "said": "permission denied"},
                               "docker does not work on machine m: permission denied. Try"),
    "container_not_permitted": ({"field": "containerNetwork", "asked": "host", "permitted": ["private", "none"]},
                                'containerNetwork may not be "host"; permitted are "private", "none".'),
    "no_python": ({"machine": "m", "named": "/v", "given_by": "venv", "user": "alice"},
                  "venv names /v, which has no Python on machine m that user alice may run"),
    "no_nvidia_smi": ({"machine": "m", "asked": 2}, "asks for 2 GPU(s), but machine m has no nvidia-smi"),
    "gpu_missing": ({"machine": "m", "missing": [7], "has": [0, 1]}, "names GPU 7, but machine m has 2 GPUs (0, 1)"),
    "too_few_gpus": ({"machine": "m", "asked": 4, "has": 2}, "asks for 4 GPUs, but machine m has 2 GPUs"),
    "gpus_faulty": ({"machine": "m", "gpus": [{"gpu": 1, "fault": "lost", "errors": 0},
                                              {"gpu": 2, "fault": "", "errors": 3}]},
                    "On machine m GPU 1 does not answer (it may have failed or fallen off the bus; the machine needs a "
                    "reboot); the memory of GPU 2 has had 3 uncorrected errors since the driver was loaded."),
    "gpus_too_small": ({"machine": "m", "asked": 1, "has": 0, "memory": 16 << 30},
                       "It needs 1 GPU with more, and machine m has no GPU with more."),
    "too_few_gpus_named": ({"machine": "m", "asked": 2, "allowed": 1}, "gpuIndices allows 1 GPU of machine m"),
    "no_machine_fits": ({"asked": 4, "machines": [{"code": "too_few_gpus", "machine": "m", "asked": 4, "has": 2},
                                                  {"code": "no_nvidia_smi", "machine": "n"}]},
                        "has 2 GPUs; lower trialGpuNumber; n has no nvidia-smi on its PATH."),
    "machine_share_held": ({"machine": "ada", "cpus": 2.5, "memory": 8 * 1024 ** 3, "free_cpus": 1.0,
                            "free_memory": 2 * 1024 ** 3},
                           "Waits for 2.5 CPUs and 8.0 GB of memory: other trials have the rest of machine ada, 1 CPU "
                           "and 2.0 GB are left."),
    "machine_too_small": ({"machine": "ada", "cpus": 0.0, "memory": 8 * 1024 ** 3, "has_cpus": 4.0,
                           "has_memory": 7 * 1024 ** 3},
                          "asks for 8.0 GB of memory, but trials may have 7.0 GB of memory of machine ada"),
    "gpu_taken": ({"asked": 1}, "has just taken them"),
    "most_objects": ({"unfinished": 5, "most": 5}, "maxUnfinishedObjects"),
    "pod_unschedulable": ({"pod": "p", "cause": "Unschedulable", "said": "0/1 nodes."}, "(Unschedulable): 0/1 nodes."),
    "image_pull": ({"pod": "p", "image": "x", "cause": "ErrImagePull", "said": "No.", "advice": "Correct it."},
                   "image x (ErrImagePull): No. Correct it."),
    "container_waits": ({"pod": "p", "image": "x", "cause": "CreateContainerError"}, "(CreateContainerError)."),
    "scheduler": ({"scheduler": "Slurm", "cause": "Priority", "said": "others go first."}, "Slurm's queue: others"),
    "not_submitted": ({"said": "It is away.", "pause": 5.0}, "in 5 s"),
    "server_short": ({"said": "No space left on device"}, "cannot prepare the submission (No space left on device)."),
    "file_storage": ({"what": "does not answer"}, "storage of files, which does not answer."),
    "requeued": ({}, "queue"),
    "not_answering": ({}, "5 minutes"),
    "keeper_version": ({"version": "9", "newer": True, "spoken": [1, 2]},
                       "a newer NNI Web and uses version 9 of the keeper protocol. This server understands version 1"),
    "tried_again": ({"said": "", "number": 1, "most": 3}, "It failed. The trial is run again (1 of 3)."),
    "refused": ({"said": "No such queue."}, "No such queue."),
    "exit_code": ({"exit_code": 3, "last_words": "oh"}, "exit code 3. Last line of stderr: oh"),
    "signal": ({"signal": 9, "last_words": ""}, "SIGKILL. Often"),
    "command_not_found": ({"last_words": ""}, "127"),
    "not_executable": ({"last_words": ""}, "126"),
    "keeper_lost": ({"said": "", "last_words": ""}, "is not known"),
    "not_started": ({"said": "", "last_words": ""}, "could not be started"),
    "time_limit": ({}, "maxTrialDuration"),
    "canceled": ({"by": "ada"}, "Stopped by ada."),
    "stopped_early": ({}, "early"),
    "canceled_by_platform": ({}, "platform"),
    "keeper_stopped": ({}, "SIGTERM"),
    "cause": ({"cause": "Out of memory.", "said": "It ended."}, "Out of memory. It ended."),
    "experiment_stopped": ({}, "stopped"),
    "import_unfinished": ({"foreign_id": "kEpt"}, "The import of kEpt from NNI"),
    "max_trial_number": ({"most": 7, "ended": {"SUCCEEDED": 6, "USER_CANCELED": 1}},
                         "Finished: 7 of 7 trials (6 succeeded, 1 stopped)."),
    "max_duration": ({"seconds": 60.0}, "(60 s)"),
    "cluster_disabled": ({"cluster": "c"}, "c is disabled"),
    "no_worker": ({"todo": "Start one."}, "Start one."),
    "home_away": ({"said": "The cluster c is disabled."}, "is disabled. Another cluster of the experiment"),
    "host_away": ({"cluster": "c", "host": "h"}, "host h is not running"),
    "database_refuses": ({"refusal": "locked", "room": ""}, "(locked)"),
    "not_taken_up": ({}, "about to start"),
    "paused": ({"left": 3, "running": 1}, "1 running trial may still run to the end. 2 other trials wait."),
    "all_submitted": ({"left": 2}, "2 unfinished trials"),
    "tuner_waits": ({"left": 2}, "2 unfinished trials left"),
    "stopping": ({"left": 0}, "being stopped."),
    "nni_port_not_open": ({"port": 8081, "error": "it is used"}, "is not open: it is used. Another program probably "
                          "uses port 8081. The server opens it as soon as"),
    "no_trial_runs": ({"said": "Waits for x.", "because": {"code": "quota"}}, "No trial is running: waits for x."),
    "tuner_exhausted": ({"constraints": ["a < 2", "b > 1"]},
                        "no further parameters to try that satisfy the constraints (a < 2; b > 1)."),
    "constraint_broken": ({"constraint": "a < 2", "by": "tuner"}, "break the constraint a < 2. The trial was not run"),
    "proposals_refused": ({"count": 100, "constraint": "a < 2"}, "all break a constraint (the last one a < 2)."),
    "constraints_unusable": ({"said": "a is no parameter"}, "search space: a is no parameter. Correct"),
    "outcome_broken": ({"constraints": [{"constraint": "latency <= 20", "values": {"latency": 23.5}, "missing": []}],
                        "before": "It was stopped."},
                       "It was stopped. The result breaks the constraint latency <= 20 (latency = 23.5), so"),
    "tuner_silent": ({"asked_at": "10:00", "own": True}, "at 10:00 (UTC) and has not answered. One that waits"),
    "waits_for_proposals": ({"proposed": 0}, "It has proposed none so far."),
    "proposals_complete": ({}, "no more follow"),
    "not_external": ({"tuner": "TPE"}, "is TPE. Only an experiment with the tuner External"),
    "too_many_proposals": ({"most": 10_000}, "10000 proposals wait"),
    "too_many_variants": ({"held": 1024, "most": 2048}, "hold 1.0 KB of changes to the code, and with these it would "
                                                        "be more than 2.0 KB. Propose again"),
    "key_of_another": ({"key": "a", "trial": 3, "differs": "parameters"}, "names trial 3, whose parameters are others"),
    "no_variants": ({"why": "not_permitted"}, "takes no variants of its code"),
    "nothing_proposed": ({}, "not proposed any"),
    "no_trial": ({"said": "It is late.", "because": {"code": "max_duration", "seconds": 60}, "why": "Somebody sleeps."},
                 "It is late. It ended without a trial. Somebody sleeps."),
    "canceled_before_start": ({}, "before it started"),
    "code_fetching": ({"source": "https://git"}, "from https://git."),
    "annotations_invalid": ({"source": "https://git", "said": "a.py, line 2: no."},
                            "from https://git cannot be used. a.py, line 2: no. Correct"),
    "code_not_fetched": ({"source": "https://git", "said": "No branch."}, "from https://git. No branch. Resume"),
    "tuner_failed": ({"error": "No."}, "The tuner failed: No."),
    "rounds_failed": ({"times": 10, "error": "No"}, "10 times in a row: No. The server's log"),
    "assessor_failed": ({"error": "No."}, "The assessor failed: No."),
    "tuner_died": ({"times": 3, "error": "No."}, "3 times: No."),
    "given_up": ({"count": 2, "most": 2, "said": ["a.", "b."], "codes": ["exit_code"]}, "2 trials in a row failed"),
    "wrong_status": ({"status": "DONE", "wish": "pause"}, "The experiment is DONE. Only an experiment"),
    "limit_reached": ({"limit": "All 7 trials.", "wish": "resume"}, "All 7 trials. Raise the limit. The"),
    "trial_not_ended": ({"status": "RUNNING"}, "The trial is RUNNING"),
    "one_set_only": ({"platform": "kubeflow"}, "The platform kubeflow cannot give"),
    "no_job": ({"status": "WAITING"}, "The trial is WAITING and has no job"),
    "nothing_to_rerun": ({}, "not been run again"),
    "no_such_change": ({"number": 3}, "no change 3"),
    "undone_already": ({"number": 3, "by": 4}, "already undone by change 4"),
    "changed_since": ({"fields": ["a", "b"], "number": 3}, "a and b were changed again after change 3. Undo"),
    "takes_no_results": ({"tuner": "BOHB"}, "BOHB cannot use"),
    "cluster_unknown": ({"cluster": "c", "known": ["a", "b"]}, "may use: a, b."),
    "name_taken": ({"what": "cluster", "name": "c"}, 'a cluster named "c" already'),
    "cluster_in_use": ({"cluster": "c", "said": "Stop them first."}, "Stop them first."),
    "not_callable": ({"platform": "dlts"}, "Trials on dlts must"),
    "objectives_missing": ({"objectives": ["a", "b"], "missing": ["b"], "reported": False}, "for the objective b, so"),
    "service_defect": ({"method": "run", "error": "KeyError: 1"}, "code failed in run (KeyError: 1)."),
    "slow_call": ({"calls": [{"what": "start", "seconds": 40}]}, "(start) has not returned for 40 s."),
    **{code: ({"said": "Its words."}, "Its words.") for code in OF_CLUSTERS},
    **{code: ({"said": "Its words.", "platform": "Slurm", "cause": "X", "ended": "It ended.",
               "end": {"code": "signal"}}, "Its words. It ended.") for code in OF_PLATFORMS},
}


@pytest.mark.parametrize("code", sorted(CODES))
def test_each_code_makes_one_sentence_of_arguments_that_json_has(code: str) -> None:
    arguments, words = EXAMPLES[code]
    reason = Reason(code, **arguments)
    assert words in reason
    assert (code_of(reason), arguments_of(reason)) == (code, arguments)
    assert Reason(code, **json.loads(json.dumps(reason.arguments))) == reason
    assert CODES[code].meaning.endswith(".")
    assert len(code) <= 32  # the column's width


@pytest.mark.parametrize("reason", [
    Reason("given_up", count=1, most=1, said=["No module named 'x'"], codes=[]),
    Reason("equal_failures", count=5, said="No module named 'x'")])
def test_what_a_trial_printed_has_a_full_stop_before_the_next_sentence(reason: Reason) -> None:
    assert "No module named 'x'. Fix the cause" in reason


def test_every_code_is_given_somewhere_and_has_an_example() -> None:
    given = {node.value for package in ("nniweb", "trainingservice") for path in (ROOT / package).rglob("*.py")
             if path != ROOT / "trainingservice" / "reasons.py" and "migrations" not in path.parts
             for node in ast.walk(ast.parse(path.read_text()))
             if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    assert CODES.keys() == EXAMPLES.keys()
    assert CODES.keys() - given == set()


def test_an_unknown_code_or_argument_is_a_fault_of_the_program() -> None:
    with pytest.raises(KeyError):
        Reason("no_such_code")
    with pytest.raises(TypeError):
        Reason("quota", whom="ada")


def test_plain_text_has_the_code_of_who_wrote_it() -> None:
    assert [code_of(""), code_of("text"), code_of("text", PLATFORM)] == ["", OTHER, PLATFORM]
    assert arguments_of("text") == {}


def test_an_error_keeps_the_code_it_was_given() -> None:
    assert MustWait(Reason("gpu_taken", asked=1)).reason.code == "gpu_taken"  # type: ignore[attr-defined]
    assert code_of(MustWait("text").reason) == OTHER
    assert str(MustWait(Reason("gpu_taken", asked=1))) == str(Reason("gpu_taken", asked=1))


def test_a_trial_that_waits_for_a_budget_that_allows_nothing_says_that() -> None:
    mine = {"whose": {"kind": "person", "name": "ada"}, "most": 0, "left": 0}
    assert Reason("budget", **mine, unit="trials", period="total", again="") == (
        "Waits for the budget of ada, which allows no trials. An administrator can raise it.")
    assert Reason("budget", **mine, unit="money", period="month", again="2026-12-01") == (
        "Waits for the budget of ada, which allows no money in any month. An administrator can raise it.")


def test_a_reason_can_be_sent_to_another_process() -> None:
    reason = Reason("quota", whose={"kind": "person", "name": "ada"}, unit="trials", most=4)
    again = pickle.loads(pickle.dumps(reason))
    assert (again, again.code, again.arguments) == (reason, reason.code, reason.arguments)


def test_a_gpu_that_is_held_names_the_jobs_as_data() -> None:
    choice = choose_gpus(GpuRequest(1), [GpuReading(0), GpuReading(1, processes=1)],
                         {f"job{number}": (0,) for number in range(6)}, "m")
    assert isinstance(choice, Waits)
    assert choice.reason.arguments == {"machine": "m", "asked": 1, "free": 0, "held": [
        {"gpu": 0, "jobs": ["job0", "job1", "job2", "job3"], "more": True}, {"gpu": 1, "jobs": [], "processes": 1}]}


def test_of_several_machines_each_says_what_it_lacks_as_data() -> None:
    machines = [MachineView("a", "a", problem="It is away."), MachineView(
        "b", "b", has_gpus=True, gpus=(GpuReading(0),), booked={"job": (0,)})]
    choice = choose_machine(1, machines)
    assert isinstance(choice, Waits)
    assert choice.reason.code == "machines_busy"
    assert choice.reason.arguments["machines"] == [
        {"code": "machine_away", "machine": "a", "said": "It is away."},
        {"machine": "b", "free": 0, "held": [{"gpu": 0, "jobs": ["job"], "more": False}]}]


def test_of_each_machine_a_code_says_why_it_takes_nothing() -> None:
    machines = [MachineView("a", "a", trials=2, max_trials=2), MachineView("b", "b", gpu_problem="No driver."),
                MachineView("c", "c"), MachineView("d", "d", has_gpus=False)]
    choice = choose_machine(1, machines)
    assert isinstance(choice, Waits)
    assert choice.reason.arguments["machines"] == [
        {"code": "machine_full", "machine": "a", "trials": 2},
        {"code": "gpus_unread", "machine": "b", "error": "No driver."}, {"code": "gpus_not_seen", "machine": "c"},
        {"code": "no_nvidia_smi", "machine": "d"}]
    assert choice.reason == (
        "Waits for 1 GPU: a runs 2 trial(s), as many as maxTrialNumber allows; b: its GPUs cannot be read: No driver; "
        "c: its GPUs are being read; d has no nvidia-smi on its PATH.")


def test_what_can_never_be_says_so_as_data() -> None:
    choice = choose_gpus(GpuRequest(1, gpu_indices=(0, 7)), [GpuReading(0)], {}, "m")
    assert isinstance(choice, Impossible)
    assert as_document(choice.reason) == {"code": "gpu_missing", "machine": "m", "missing": [7], "has": [0]}
    of_all = choose_machine(4, [MachineView("m", "m", gpus=(GpuReading(0),))])
    assert isinstance(of_all, Impossible)
    assert as_document(of_all.reason) == {"code": "no_machine_fits", "asked": 4, "machines": [
        {"code": "too_few_gpus", "machine": "m", "asked": 4, "has": 1}]}


def test_what_a_platform_refuses_keeps_its_code_and_plain_words_get_one() -> None:
    assert as_document(refusal(Reason("gpu_missing", machine="m", missing=[7], has=[]))) == {
        "code": "gpu_missing", "machine": "m", "missing": [7], "has": []}
    assert as_document(refusal("No such queue.")) == {"code": "refused", "said": "No such queue."}


def test_a_reason_in_another_one_keeps_its_code() -> None:
    assert because_of(Reason("gpu_taken", asked=1)) == {"because": {"code": "gpu_taken", "asked": 1}}
    assert because_of("plain words") == {}


OUT = Reason("out_of_memory", said="OOMKilled.", platform="Kubernetes")
FAILED = Reason("platform_failed", said="BackoffLimitExceeded.", platform="Kubernetes", cause="BackoffLimitExceeded")


def test_what_a_platform_says_keeps_its_code_when_more_is_said() -> None:
    more = with_more(OUT, "It said: x")
    assert (more, code_of(more)) == ("OOMKilled. It said: x", "out_of_memory")
    assert with_more("plain", "more") == "plain more"
    assert code_of(with_more("plain", "more")) == OTHER


def test_of_several_messages_the_code_that_tells_most_is_kept() -> None:
    both = together([FAILED, OUT, FAILED, ""])
    assert (both, code_of(both)) == ("BackoffLimitExceeded. OOMKilled.", "out_of_memory")
    assert code_of(together([FAILED, "plain"])) == "platform_failed"
    assert (together(["a.", "b."]), code_of(together(["a."]))) == ("a. b.", OTHER)


def test_a_cause_keeps_its_code_before_the_end_that_it_explains() -> None:
    ended = Reason("signal", signal=9, last_words="")
    found = with_end(OUT, ended)
    assert found == f"OOMKilled. {ended}"
    assert (code_of(found), arguments_of(found)["end"]) == (
        "out_of_memory", {"code": "signal", "signal": 9, "last_words": ""})
    assert as_document(with_end("Evicted.", "It ended.")) == {"code": "cause", "cause": "Evicted.", "said": "It ended."}
    assert [tells_of(found, OUT), tells_of(found, FAILED), tells_of("Evicted. It ended.", "Evicted."),
            tells_of("It ended.", "Evicted.")] == [True, False, True, False]


def test_the_jobs_that_a_reason_names_are_found_however_deep_and_once() -> None:
    reason = {"code": "no_trial_runs", "because": {"machines": [
        {"said": "m is away"}, {"held": [{"gpu": 0, "jobs": ["a", "b"]}, {"gpu": 1, "jobs": ["b", 7]}]}]}}
    assert jobs_named_by(reason) == ["a", "b"]
    assert [jobs_named_by(nothing) for nothing in (None, "", {}, {"jobs": "a"}, 3)] == [[]] * 5


def test_that_a_trial_is_run_again_is_a_sentence_of_its_own() -> None:
    for said in ("the disk of box1 is full", "the disk of box1 is full."):
        again = Reason("tried_again", said=said, number=1, most=2)
        assert again == "the disk of box1 is full. The trial is run again (1 of 2)."
