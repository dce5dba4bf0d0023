"""Why a trial waits, failed or was stopped, why an experiment or a cluster is as it is: a code with arguments.

A ``Reason`` is its own sentence: it goes wherever a message goes. What stores a message stores ``code`` and
``arguments`` beside it, and programs look at those alone. The sentences of codes are made here, the server's
own included; a code with ``said`` has its sentence from who gives it.

Text that somebody else wrote (a platform, a plug-in, a person) is a plain ``str``. Who stores it says whose it is:
``PLATFORM`` or ``OTHER``.
"""

from __future__ import annotations

import signal as signals
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trainingservice.words.byte_size import byte_size
from trainingservice.words.metric_words import METRIC_PROBLEMS, metrics_not_found
from trainingservice.words.shown_value import shown
from trainingservice.words.status_words import status_word
from trainingservice.words.warm_start_words import PLAIN_START_CAUSES, plain_start

#: Codes of text that is not made here.
PLATFORM, OTHER = "platform", "other"


#: Codes that all platforms share. Arguments: said (the platform's words, or ours for them), platform, and cause (the
#: platform's own word or number) where it has one; of ends also ended (how the command ended) and end (its reason);
#: because, where said contains another reason.
OF_PLATFORMS = {
    "platform_queue": "The job waits in the platform's queue.",
    "platform_prepares": "A machine, a volume, an image or a container is being made ready for the job.",
    "platform_held": "The job is suspended, paused or held on the platform.",
    "platform_quota": "A quota of the platform has no room for the job.",
    "platform_waits": "The job cannot continue for another reason that the platform gives.",
    "platform_requeued": "The platform ended the job and has queued it again.",
    "platform_state_unknown": "The platform reports a state that does not tell whether the job runs. cause: the state.",
    "out_of_memory": "The trial ran out of memory: of its GPU, of its machine, or of a limit on what it may use. "
                     "memory: gpu or main; line: of its output that says so; gpu_total: bytes of memory of its GPU.",
    "evicted": "The platform evicted the trial from its machine (lack of memory or disk space, a drain, a shutdown).",
    "preempted": "The platform ended the trial to make room for another job.",
    "submission_lost": "It is not known whether the submission reached the platform. The server looks for the job and "
                       "submits it again if there is none.",
    "machine_unreachable": "The trial's machine cannot be reached. The trial may still be running.",
    "node_failed": "The trial's machine failed, or the platform has lost contact with it.",
    "platform_time_limit": "The platform ended the trial because one of the platform's time limits was reached.",
    "never_scheduled": "No machine of the platform has what the trial asks for.",
    "image_missing": "The image was not found or cannot be pulled, so the job failed.",
    "launch_failed": "The platform could not start the trial on its machine.",
    "stopped_on_platform": "Somebody stopped or deleted the job on the platform.",
    "platform_failed": "The job failed on the platform, and no other code describes the reason.",
    "end_unknown": "The platform no longer has the job, and how the job ended is not known.",
}


#: Codes of what keeps a whole platform, or a machine of it, from working. Argument: said.
OF_CLUSTERS = {
    "unreachable": "The platform or the machine cannot be reached, or does not answer.",
    "connection_refused": "Nothing takes connections at the machine's address and port.",
    "certificate_refused": "The platform's certificate is not accepted, or no TLS connection can be made.",
    "log_in_refused": "The platform or the machine does not accept the credentials (password, key, token).",
    "not_permitted": "The account lacks a permission on the platform that trials need.",
    "host_key_refused": "The machine's host key is not the expected one, or no expected host key is known.",
    "server_fault": "The platform answered with an internal error.",
    "too_many_calls": "The platform refused a request because of its rate limit.",
    "another_server": "Another program than the platform answered at the platform's address.",
    "machine_unusable": "The machine can be reached but cannot run trials (no Python or a full disk, for example).",
    "machine_connects": "The server is connecting to the machine.",
    "machine_set_aside": "Several submissions in a row failed on the machine, so it gets no trials for a while.",
    "settings_unusable": "The cluster cannot be used with its settings or with the packages installed on the server.",
    "platform_defect": "The program code for the platform failed. The log has the traceback.",
    "service_starting": "The cluster's service is being started.",
    "service_ended": "The cluster's service ended unexpectedly and is being restarted.",
}


@dataclass(frozen=True)
class Kind:
    """What is known of one code: for whoever reads it in an answer, and how its sentence is made of the arguments."""

    meaning: str
    sentence: Callable[..., str]


class Reason(str):
    """``Reason("gpu_taken", asked=2)``. Raises KeyError for an unknown code, and TypeError for arguments that the code
    does not have. Arguments are JSON-able.
    """

    code: str
    arguments: dict[str, Any]

    def __new__(cls, code: str, /, **arguments: Any) -> Reason:
        reason = super().__new__(cls, CODES[code].sentence(**arguments))
        reason.code = code
        reason.arguments = arguments
        return reason

    def __getnewargs_ex__(self) -> tuple[tuple[str], dict[str, Any]]:
        """For copies and other processes."""
        return (self.code,), self.arguments


def code_of(message: str, whose: str = OTHER) -> str:
    """The code of a message; ``whose`` where it is plain text, "" where it is empty."""
    if isinstance(message, Reason):
        return message.code
    return whose if message else ""


def arguments_of(message: str) -> dict[str, Any]:
    """The arguments of a message; none where it is plain text."""
    return message.arguments if isinstance(message, Reason) else {}


def as_document(message: str, whose: str = OTHER) -> dict[str, Any]:
    """A reason as an argument of another one: ``{"code": ..., **arguments}``. ``whose`` is the code of plain text."""
    return {"code": code_of(message, whose), **arguments_of(message)}


def because_of(message: str) -> dict[str, Any]:
    """The argument ``because`` of a reason whose sentence contains this message; none where the message has no code."""
    return {"because": as_document(message)} if isinstance(message, Reason) else {}


def refusal(message: str) -> Reason:
    """Why a platform will never take a trial: the reason it gave, ``refused`` with its words where it gave none."""
    return message if isinstance(message, Reason) else Reason("refused", said=message)


def each_text(value: Any, change: Callable[[str], str]) -> Any:
    """A value of JSON whose texts (not the keys) are changed."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {key: each_text(each, change) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [each_text(each, change) for each in value]
    return value


def with_texts(message: str, change: Callable[[str], str]) -> str:
    """The message with its text changed; of a reason all texts in its arguments."""
    if not isinstance(message, Reason):
        return change(message)
    return Reason(message.code, **each_text(message.arguments, change))


def with_more(message: str, more: str) -> str:
    """A message with more text behind it. What a platform says (``OF_PLATFORMS``) keeps its code."""
    if isinstance(message, Reason) and message.code in OF_PLATFORMS:
        return Reason(message.code, **{**message.arguments, "said": f"{message.arguments['said']} {more}".strip()})
    return f"{message} {more}".strip()


def together(messages: Iterable[str]) -> str:
    """What a platform says of one end in several messages, each once, with the code that tells most."""
    each = list(dict.fromkeys(filter(None, messages)))
    coded = [message for message in each if isinstance(message, Reason) and message.code in OF_PLATFORMS]
    if not coded:
        return " ".join(each)
    best = next((message for message in coded if message.code != "platform_failed"), coded[0])
    return Reason(best.code, **{**best.arguments, "said": " ".join(each)})


def with_end(cause: str, ended: str) -> str:
    """What a platform knows of why a trial ended, with how it ended behind it. The code is the cause's."""
    if not isinstance(cause, Reason) or cause.code not in OF_PLATFORMS:
        return Reason("cause", cause=str(cause), said=str(ended), **because_of(cause)) if ended else cause
    more = {"end": as_document(ended)} if isinstance(ended, Reason) else {}
    return Reason(cause.code, **{**cause.arguments, "ended": str(ended), **more})


def tells_of(message: str, cause: str) -> bool:
    """Whether a message tells this cause already."""
    if isinstance(message, Reason) and isinstance(cause, Reason):
        return message.code == cause.code
    return cause in message  # of a platform whose causes have no code


def jobs_named_by(reason: Any) -> list[str]:
    """The jobs in a reason's arguments: whatever stands in lists that are called "jobs", however deep. Each once."""
    if isinstance(reason, dict):
        found = [job for key, value in reason.items()
                 for job in (value if key == "jobs" and isinstance(value, list) else jobs_named_by(value))]
    elif isinstance(reason, list):
        found = [job for value in reason for job in jobs_named_by(value)]
    else:
        return []
    return list(dict.fromkeys(job for job in found if isinstance(job, str)))


# --- sentences -----------------------------------------------------------------------------------------------


def count_of(number: int, thing: str = "GPU") -> str:
    """"no GPU", "1 GPU", "2 GPUs"."""
    return f"no {thing}" if number == 0 else f"1 {thing}" if number == 1 else f"{number} {thing}s"


_TURNS = ("Where several experiments wait, the highest priority goes first, then the one with the fewest trials under "
          "way.")


def _whose(kind: str, name: str) -> str:
    return {"person": f"the quota of {name}", "each_person": "the quota that each person has",
            "group": f"the quota of the group {name}", "cluster": f"the limit of the cluster {name}"}[kind]


def _quota(whose: Mapping[str, str], unit: str, most: int, asked: int = 0) -> str:
    if unit == "trials":
        return f"Waits for {_whose(**whose)}: at most {count_of(most, 'trial')} at a time. {_TURNS}"
    return (f"Waits for {_whose(**whose)}: at most {count_of(most)} at a time. Each trial asks for {count_of(asked)}. "
            f"{_TURNS}")


def _leash_cluster(token: str, cluster: str, allowed: Sequence[str]) -> str:
    asked = f"the cluster {shown(cluster)}" if cluster else "a cluster that the launch would make"
    known = f"the clusters {', '.join(allowed)}" if allowed else "clusters that are set up already"
    return f"The token {shown(token)} has a leash: it may use {known}, not {asked}."


def _quota_too_small(whose: Mapping[str, str], most: int, asked: int) -> str:
    return (f"A trial asks for {count_of(asked)}, but {_whose(**whose)} allows only {most} at a time, so it can never "
            "start. Lower trialGpuNumber in a new experiment, or ask an administrator to raise the limit.")


def whose_budget(kind: str, name: str) -> str:
    """Of the arguments of a reason, in words."""
    return {"person": f"the budget of {name}", "each_person": "the budget that each person has",
            "group": f"the budget of the group {name}", "token": f"the budget of the token {name}",
            "experiment": f"the budget of the experiment {name}"}[kind]


_UNITS = {"gpu_hours": "GPU-hours", "cpu_hours": "CPU-hours", "trials": "trials", "wall_hours": "hours of trials",
          "money": "of money"}


def _of_budget(unit: str, most: float, period: str) -> str:
    amount = count_of(int(most), "trial") if unit == "trials" else f"{most:g} {_UNITS[unit]}"
    return f"{amount} {'a month' if period == 'month' else 'in total'}"


def _budget(whose: Mapping[str, str], unit: str, most: float, left: float, period: str, again: str) -> str:
    who_raises = _WHO_RAISES[whose["kind"] == "experiment"]
    if most == 0:  # nothing comes with the next month either
        return f"Waits for {whose_budget(**whose)}, which {_allows_nothing(unit, period)}. {who_raises}"
    return (f"Waits for {whose_budget(**whose)}: of {_of_budget(unit, most, period)}, "
            f"{left:g} {'is' if unit == 'money' else 'are'} left. "
            + (f"It begins anew on {again} (UTC). " if again else "") + who_raises)


_WHO_RAISES = ("An administrator can raise it.", "Whoever may change the experiment can raise its own budget, an "
               "administrator any.")


def _no_budget(whose: Mapping[str, str], unit: str, period: str) -> str:
    return _with_capital(f"{whose_budget(**whose)} {_allows_nothing(unit, period)}, so no trial could ever start. "
                         "Ask an administrator to raise it.")


def _allows_nothing(unit: str, period: str) -> str:
    return (f"allows no {'money' if unit == 'money' else _UNITS[unit]}"
            f"{' in any month' if period == 'month' else ''}")


def _experiment_quota(whose: Mapping[str, str], most: int, unfinished: int) -> str:
    allowed = "1 experiment" if most == 1 else f"{most} experiments"
    return _with_capital(f"{_whose(**whose)} allows {allowed} at a time, and {unfinished} "
                         f"{'has' if unfinished == 1 else 'have'} not ended. Stop an experiment, wait until one ends, "
                         "or ask an administrator to raise the quota.")


def _checkpoint_quota(whose: Mapping[str, str], most: int) -> str:
    return _with_capital(f"{_whose(**whose)} allows {most} GB of checkpoints, and they are used up. Keep fewer "
                         "checkpoints, delete an experiment, or ask an administrator to raise the quota.")


def _gpu_quota(whose: Mapping[str, str], most: int, asked: int) -> str:
    allowed = "1 GPU" if most == 1 else f"{most} GPUs"
    return _with_capital(f"{_whose(**whose)} allows {allowed} at a time, but one trial asks for {asked}. Lower "
                         "trialGpuNumber, or ask an administrator to raise the quota.")


def _with_capital(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]


def _gpu_held(machine: str, asked: int, free: int, held: list[Mapping[str, Any]], memory: int = 0) -> str:
    each = f" with {byte_size(memory)} left" if memory else ""
    return f"Waits for {count_of(asked)}{each}: {_few_are_free(machine, free, held)}."


def share_in_words(cpus: float | None, memory: int | None) -> str:
    """``2 CPUs and 8.0 GB of memory``; ``memory`` in bytes. What is nothing is left out."""
    parts = [count_of_cpus(cpus)] if cpus else []
    return " and ".join([*parts, *([f"{byte_size(memory)} of memory"] if memory else [])])


def count_of_cpus(cpus: float) -> str:
    """``1 CPU``, ``2.5 CPUs``."""
    return f"{cpus:g} CPU{'' if cpus == 1 else 's'}"


def _machine_share_held(machine: str, cpus: float, memory: int, free_cpus: float, free_memory: int) -> str:
    left = [*([count_of_cpus(free_cpus)] if cpus else []), *([byte_size(free_memory)] if memory else [])]
    return (f"Waits for {share_in_words(cpus, memory)}: other trials have the rest of machine {machine}, "
            f"{' and '.join(left)} are left.")


def _machine_too_small(machine: str, cpus: float, memory: int, has_cpus: float, has_memory: int) -> str:
    has = share_in_words(has_cpus if cpus else 0.0, has_memory if memory else 0)
    return (f"This trial asks for {share_in_words(cpus, memory)}, but trials may have {has} of machine {machine}; "
            "lower trialCpuNumber or trialMemorySize, or raise what trials may have.")


def _few_are_free(machine: str, free: int, held: list[Mapping[str, Any]]) -> str:
    parts = [f"{count_of(free)} of machine {machine} {'is' if free < 2 else 'are'} free"]
    for one in held:
        if one["jobs"]:
            more = " and others" if one["more"] else ""
            left = f" and has {byte_size(one['free_bytes'])} left" if one.get("free_bytes") else ""
            parts.append(f"GPU {one['gpu']} is held by {', '.join(one['jobs'])}{more}{left}")
        elif "free_bytes" in one:
            parts.append(f"GPU {one['gpu']} has {byte_size(one['free_bytes'])} left")
        elif one.get("fault"):
            parts.append(f"GPU {one['gpu']} {_GPU_FAULTS[one['fault']]}")
        else:
            parts.append(f"GPU {one['gpu']} is used by {one['processes']} process(es) of others (useActiveGpu allows "
                         "sharing it)")
    return "; ".join(parts)


_GPU_FAULTS = {"lost": "does not answer (it may have failed or fallen off the bus; the machine needs a reboot)",
               "needs_reset": "has to be reset, after an error in its memory"}


def _gpus_faulty(machine: str, gpus: list[Mapping[str, Any]]) -> str:
    parts = []
    for one in gpus:
        errors = count_of(one["errors"], "uncorrected error") if one["errors"] else ""
        if one["fault"]:
            parts.append(f"GPU {one['gpu']} {_GPU_FAULTS[one['fault']]}{f' ({errors})' if errors else ''}")
        else:
            parts.append(f"the memory of GPU {one['gpu']} has had {errors} since the driver was loaded")
    return f"On machine {machine} {'; '.join(parts)}."


def _machines_busy(asked: int, machines: list[Mapping[str, Any]]) -> str:
    wants = f"Waits for {count_of(asked)}" if asked else "Waits for a free machine"
    return f"{wants}: {'; '.join(map(_of_one_machine, machines))}."


def _nodes_busy(nodes: int, free: int, asked: int, machines: list[Mapping[str, Any]]) -> str:
    each = f" with {count_of(asked)} each" if asked else ""
    return (f"Waits for {nodes} machines{each}, of which {free} {'has' if free == 1 else 'have'} room: "
            f"{'; '.join(map(_of_one_machine, machines))}.")


def _too_few_machines(nodes: int, fit: int, asked: int, machines: list[Mapping[str, Any]]) -> str:
    each = f", and {count_of(asked)} on each" if asked else ""
    return (f"A trial asks for {nodes} machines (nodes){each}, and the cluster has {fit} that can ever run a node of "
            f"it.{' ' if machines else ''}{'; '.join(map(_of_one_machine, machines))}{'.' if machines else ''} Lower "
            "nodes, or add machines to machineList.")


def _rank_failed(rank: int, machine: str, said: str, last_lines: str) -> str:
    where = f" on machine {machine}" if machine else ""
    wrote = f" It wrote last: {last_lines}" if last_lines else ""
    return f"Rank {rank}{where} failed, which ended all ranks of the trial. {_full_stop(said)}{wrote}"


def _no_machine_fits(asked: int, machines: list[Mapping[str, Any]]) -> str:
    return (f"No machine can ever run this trial, which asks for {asked} GPU{'' if asked == 1 else 's'}: "
            f"{'; '.join(map(_of_one_machine, machines))}.")


def _of_one_machine(one: Mapping[str, Any]) -> str:
    """What one machine lacks, without the full stop."""
    if "code" in one:
        arguments = {name: value for name, value in one.items() if name != "code"}
        return CODES[one["code"]].sentence(**arguments).rstrip(". ")
    return str(one["said"]) if "said" in one else _few_are_free(**one)


#: Code that all machines have -> what is said of them together.
_OF_EVERY = {
    "connection_refused": "Every machine refuses connections", "unreachable": "No machine can be reached",
    "log_in_refused": "Every machine refuses the log-in",
    "host_key_refused": "No machine has the host key that is expected",
    "machine_unusable": "No machine can run trials as it is", "machine_connects": "Every machine is being connected",
    "machine_set_aside": "Every machine is left alone for a while, because submissions failed there"}


def _every_machine(machines: list[Mapping[str, Any]], count: int, common: str) -> str:
    each = [f"{one['machine']}: {str(one['said']).rstrip('. ')}" for one in machines]
    more = [f"and {count - len(machines)} more"] if count > len(machines) else []
    return f"{_OF_EVERY.get(common, 'No machine can be used')} ({'; '.join([*each, *more])})."


def _some_machines(machines: list[Mapping[str, Any]], bad: int, count: int) -> str:
    each = [f"{one['machine']}: {str(one['said']).rstrip('. ')}" for one in machines]
    more = [f"and {bad - len(machines)} more"] if bad > len(machines) else []
    return f"{bad} of {count} machines cannot be used ({'; '.join([*each, *more])})."


_DIFFERS = {"parameters": "parameters are others",
            "variant": "parameters are the same, but whose change to the code is another one"}
_NO_VARIANTS = {
    "not_permitted": "This experiment takes no variants of its code, because its config has no codeVariants. Launch an "
                     "experiment whose config has codeVariants: true, or with the paths that may be changed.",
    "not_fetched": "The experiment's code has not been fetched yet, so a variant cannot be compared with it. Try again "
                   "when the experiment is RUNNING.",
    "removed": "The copy of the experiment's code is not there any more, so nothing can be changed in it. Launch the "
               "code again."}


def _gpus_not_seen(machine: str, asked: int | None = None) -> str:
    if asked is None:
        return f"{machine}: its GPUs are being read."
    return f"Waits for {asked} GPU(s): the GPUs of machine {machine} are being read."


def _gpus_unread(machine: str, error: str, asked: int | None = None) -> str:
    if asked is None:
        return f"{machine}: its GPUs cannot be read: {error}"
    return f"Waits for {asked} GPU(s): the GPUs of machine {machine} cannot be read: {error}"


def _no_python(machine: str, named: str, given_by: str, user: str = "") -> str:
    who = f"user {user}" if user else "the server's user"
    if given_by == "shellEnvironment":
        return (f"{named} was active in the shell that launched the experiment, and has no Python on machine {machine} "
                f"that {who} may run: it was removed, is on another machine, or is closed to that user. Make it again, "
                "or launch from a shell with another environment, or name one in venv or condaEnv.")
    return (f"{given_by} names {named}, which has no Python on machine {machine} that {who} may run. Make it there, or "
            f"correct {given_by}.")


def _container_not_permitted(field: str, asked: str, permitted: list[str]) -> str:
    may = ", ".join(shown(one) for one in permitted[:20]) or "none"
    if not asked:
        return (f"On this server's own machine trials run in an image only. Give dockerImage; permitted are {may}. (An "
                "administrator decides this in local_config.)")
    return (f"On this server's own machine {field} may not be {shown(asked)}; permitted are {may}. Choose one of them, "
            "or ask an administrator to add it to local_config.")


def _no_nvidia_smi(machine: str, asked: int | None = None) -> str:
    if asked is None:
        return f"{machine} has no nvidia-smi on its PATH."
    return (f"This trial asks for {asked} GPU(s), but machine {machine} has no nvidia-smi on its PATH, so its GPUs are "
            "not known. Install NVIDIA's driver, or set trialGpuNumber to 0.")


def _gpu_missing(machine: str, missing: list[int], has: list[int]) -> str:
    there = f"{count_of(len(has))} ({_listed(has)})" if has else "no GPUs"
    return f"gpuIndices names GPU {_listed(missing)}, but machine {machine} has {there}; correct gpuIndices."


def _listed(indices: list[int]) -> str:
    return ", ".join(map(str, indices))


def _too_few_gpus(machine: str, asked: int, has: int) -> str:
    return f"This trial asks for {count_of(asked)}, but machine {machine} has {count_of(has)}; lower trialGpuNumber."


def _too_few_gpus_named(machine: str, asked: int, allowed: int) -> str:
    return (f"This trial asks for {count_of(asked)}, but gpuIndices allows {count_of(allowed)} of machine {machine}; "
            "lower trialGpuNumber or name more GPUs in gpuIndices.")


def _container_waits(pod: str, image: str, cause: str, said: str = "", advice: str = "") -> str:
    return (f"Pod {pod} cannot start image {image} ({cause}){f': {said}' if said else '.'}"
            f"{f' {advice}' if advice else ''}")


def _keeper_version(version: str, newer: bool, spoken: list[int]) -> str:
    return (f"The trial's keeper was started by {'a newer' if newer else 'another'} NNI Web and uses version {version} "
            f"of the keeper protocol. This server understands version {' and '.join(map(str, spoken))}. The trial "
            "continues, and its reports are kept on its machine until one day after its end. To receive them, start "
            f"an NNI Web that understands version {version} (docs/upgrade.md).")


def _slow_call(calls: list[Mapping[str, Any]]) -> str:
    return " ".join(f"A call to the platform ({one['what']}) has not returned for {one['seconds']:.0f} s."
                    for one in calls)


def _full_stop(said: str) -> str:
    """A sentence that another one follows; what a trial printed has no full stop."""
    return f"{said.rstrip('. ')}."


def _given_up(count: int, most: int, said: list[str], codes: list[str]) -> str:  # noqa: ARG001  # for programs
    return (f"{'A trial' if count == 1 else f'{count} trials in a row'} failed, and giveUpAfter is {most}. Reasons: "
            f"{_full_stop(' / '.join(said) or 'not known')} Fix the cause, then resume the experiment.")


def _equal_failures(count: int, said: str, because: Mapping[str, Any] | None = None) -> str:  # noqa: ARG001
    return (f"{count} trials in a row failed for the same reason, and none has succeeded: {_full_stop(said)} Fix the "
            "cause, then resume the experiment.")


_WRONG_STATUS = {
    "pause": "The experiment is {}. Only an experiment that has not ended and is not being stopped can be paused.",
    "resume": "The experiment is still stopping; wait until it is STOPPED.",
    "archive": "The experiment is {}; stop it before archiving it.",
    "delete": "The experiment is {} and may have running trials; stop it before deleting it.",
    "submit": "The experiment is {}; resume it before submitting a trial.",
    "propose": "The experiment is {}; it takes no proposals.",
    "complete": "The experiment is {}; resume it before you complete it.",
}
_RAISE = {"resume": "Raise the limit. The experiment then continues automatically.",
          "submit": "Raise the limit before submitting another trial.",
          "propose": "Raise the limit before proposing more."}


def _changed_since(fields: list[str], number: int) -> str:
    names = " and ".join(filter(None, [", ".join(fields[:-1]), fields[-1]]))
    return (f"{names} {'was' if len(fields) == 1 else 'were'} changed again after change {number}. Undo the later "
            f"changes first, or set the value{'s' * (len(fields) > 1)} yourself.")


def _objectives_missing(objectives: list[str], missing: list[str], reported: bool, before: str = "") -> str:
    has = "Its final result has no finite number" if reported else "It reported no final result"
    example = "{" + ", ".join(f'"{name}": 0.5' for name in objectives) + "}"
    said = (f"{has} for the objective{'s' if len(missing) > 1 else ''} {' and '.join(missing)}, so the tuner learnt "
            f"nothing from it. Report all of them: nni.report_final_result({example}).")
    return f"{before} {said}".lstrip()


_BROKEN_BY = {"tuner": "The tuner proposed parameters that break the constraint {}. The trial was not run, and the "
                       "tuner is told that it failed.",
              "person": "The parameters break the constraint {}. Change them, or launch the experiment again without "
                        "this constraint."}


def _outcome_broken(constraints: list[dict[str, Any]], before: str = "") -> str:
    each = []
    for one in constraints:
        known = ", ".join(f"{name} = {value:g}" for name, value in one["values"].items())
        missing = " and ".join(one["missing"])
        each.append(f"{one['constraint']} ({'; '.join(filter(None, [known, missing and f'no number for {missing}']))})")
    plural = "s" if len(each) > 1 else ""
    unknown = all(one["missing"] for one in constraints)
    said = f"It is not known whether the result satisfies the constraint{plural}" if unknown else \
        f"The result breaks the constraint{plural}"
    hint = " Report all metrics in nni.report_final_result." if any(one["missing"] for one in constraints) else ""
    return f"{before} {said} {', '.join(each)}, so feasible results go before it.{hint}".lstrip()


def _unfinished(left: int) -> str:
    return count_of(left, "unfinished trial")


def _paused(left: int, running: int) -> str:
    said = "No new trial is started until the experiment is resumed."
    if running:
        said += f" {_with_capital(count_of(running, 'running trial'))} may still run to the end."
    if left > running:
        waiting = count_of(left - running, "other trial" if running else "unfinished trial")
        said += f" {_with_capital(waiting)} {'waits' if left - running == 1 else 'wait'}."
    return said


def _max_trial_number(most: int, ended: dict[str, int] | None = None) -> str:
    if ended is None:
        return f"All {most} trials that maxTrialNumber allows were created." if most != 1 else \
            "The only trial that maxTrialNumber allows was created."
    each = ", ".join(f"{count} {status_word(status).lower()}" for status, count in ended.items() if count)
    return f"Finished: {sum(ended.values())} of {count_of(most, 'trial')} ({each})."


def _last_words(text: str) -> str:
    return f" Last line of stderr: {text}" if text else ""


def _signal(signal: int, last_words: str = "") -> str:
    try:
        name = signals.Signals(signal).name
    except ValueError:
        name = f"signal {signal}"
    hint = " Often this means that the machine ran out of memory." if name == "SIGKILL" else ""
    return f"The command was ended by {name}.{hint}{_last_words(last_words)}"


def _exit_code(exit_code: int | None, last_words: str = "") -> str:
    return f"The command ended with exit code {exit_code}.{_last_words(last_words)}"


def _command_not_found(last_words: str = "") -> str:
    return ("The command was not found (exit code 127). Check that it is installed on the trial machine and is on its "
            f"PATH.{_last_words(last_words)}")


def _not_executable(last_words: str = "") -> str:
    return ("The command could not be executed (exit code 126). Check that its file is marked as executable."
            f"{_last_words(last_words)}")


#: Why a checkpoint could be neither kept nor put back in place, after "because".
_CHECKPOINT_PROBLEMS = {
    "too_large": "it is larger than maxSize of checkpoints allows",
    "too_many_files": "it has too many files",
    "not_plain": "it contains something that is neither a file nor a folder",
    "changed": "it was changed or removed while it was read",
    "unreadable": "it cannot be read",
    "not_taken": "the server does not accept it",
    "missing": "the server does not have it any more",
    "damaged": "it is damaged",
    "no_room": "there is no room for it on the trial's machine",
    "incomplete": "the trial ended before it was complete",
}


def _checkpoint_failed(name: str, kept: bool, problem: str, detail: str) -> str:
    what = "kept" if kept else "put back in place"
    next_step = "" if kept else " The trial goes on from an older one, or begins from the beginning."
    return (f"Its checkpoint{f' {shown(name)}' if name else ''} could not be {what}, because "
            f"{_CHECKPOINT_PROBLEMS.get(problem, problem)}{f' ({detail})' if detail else ''}.{next_step}")


def _checkpoint_resumed(name: str, step: int | None, attempt: int, trial: int | None = None) -> str:
    whose = f"attempt {attempt}" if trial is None else f"trial {trial}"
    return f"It went on from the checkpoint {shown(name)}{'' if step is None else f' (step {step})'} of {whose}."


def _on_clusters(clusters: list[Mapping[str, Any]]) -> str:
    """What each of several clusters says, without the full stop."""
    each = []
    for one in clusters:
        arguments = {name: value for name, value in one.items() if name not in ("cluster", "code")}
        each.append(f"{one['cluster']}: {CODES[one['code']].sentence(**arguments).rstrip('. ')}")
    return "; ".join(each)


def _not_chosen(by: str, chosen: str) -> str:
    return {"cost": f"a trial costs less on {chosen}.",
            "weight": f"{chosen} has fewer trials for its weight.",
            "failures": f"several trials failed there lately by the platform's fault, and not on {chosen}.",
            "checkpoint": f"the trial ran on {chosen} before.",
            "code": f"the code is on {chosen} already."}[by]


CODES: dict[str, Kind] = {
    "clusters_full": Kind(
        "None of the experiment's clusters has room for the trial. clusters: what each of them says: its name "
        "(cluster) and a reason.",
        lambda clusters: f"Waits for room on one of its clusters. {_on_clusters(clusters)}."),
    "chosen": Kind(
        "The trial runs on this cluster. clusters: why not on the others: the name (cluster) and a reason.",
        lambda clusters: f"The other clusters: {_on_clusters(clusters)}." if clusters else
                         "No other cluster was possible."),
    "not_chosen": Kind(
        "A cluster had room for the trial, and another one was chosen. chosen: that one; by: what decided (cost, "
        "weight, failures, checkpoint, code).", _not_chosen),
    "drained": Kind(
        "The cluster is drained, so it gets no new trials of the experiment.",
        lambda: "drained, so it gets no new trials."),
    "not_listed": Kind(
        "The cluster was taken out of the experiment's list, so it gets no new trials of the experiment.",
        lambda: "was taken out of the experiment's list, so it gets no new trials."),
    "no_weight": Kind(
        "The cluster has weight 0 in the experiment's list, so it gets no new trials of the experiment.",
        lambda: "has weight 0, so it gets no new trials."),
    "refused_there": Kind(
        "The cluster's platform refused a trial of the experiment, so it gets no other. Change the entry or the "
        "cluster to try again. said: the platform's words; because: the same with its code.",
        lambda said, because=None: f"refused a trial of the experiment ({str(said).rstrip('. ')})."),
    "no_worker_there": Kind(
        "No worker drives the cluster.", lambda: "no worker drives it."),
    "unhealthy_there": Kind(
        "The cluster cannot be used now. said: why; because: the same with its code.",
        lambda said, because=None: f"cannot be used now ({str(said).rstrip('. ')})."),
    "disabled_there": Kind(
        "An administrator has disabled the cluster.", lambda: "disabled."),
    "at_most_there": Kind(
        "As many trials of the experiment are on the cluster as upTo of its entry allows.",
        lambda most: f"has {count_of(most, 'trial')}, as many as upTo allows."),
    "limit_there": Kind(
        "The limit of the cluster is used up by this experiment and others. most: trials at a time.",
        lambda most: f"has {count_of(most, 'trial')} of all experiments, as many as its limit allows."),
    "gpus_there": Kind(
        "No machine of the cluster has as many free GPUs as a trial asks for. asked: GPUs of a trial; most: of the "
        "machine that has most of them; free: the most that one has free.",
        lambda asked, most, free: f"a trial asks for {count_of(asked)}, and no machine has more than "
                                  f"{count_of(most if most < asked else free)}{'' if most < asked else ' free'}."),
    "waits_there": Kind(
        "Trials of the experiment wait on the cluster already, because it has no room. count: how many; said: what one "
        "of them waits for.",
        lambda count, said: f"{count_of(count, 'trial')} of the experiment {'waits' if count == 1 else 'wait'} there "
                            f"already ({str(said).rstrip('. ')})."),
    "goes_after": Kind(
        "The cluster gets trials only when others have no room. clusters: those of them that have room.",
        lambda clusters: f"comes after {' and '.join(clusters)}, which {'have' if clusters[1:] else 'has'} room."),
    "moves": Kind(
        "The trial had not begun on its cluster, which cannot run it now, so it is placed on another one. cluster: the "
        "one that it leaves; said: why; because: the same with its code.",
        lambda cluster, said, because=None: f"The trial leaves {cluster}, where it has not begun, and is placed anew: "
                                            f"{said}"),
    "frozen": Kind(
        "A person froze the trial: it saved a checkpoint, if it could, and waits until somebody thaws it. by: the user "
        "name, where it is known.",
        lambda by="a person": f"Frozen by {by}. The trial continues from its last checkpoint when somebody thaws it."),
    "cannot_freeze": Kind(
        "Trials of the platform have no keeper that could tell them to save a checkpoint. platform: its name.",
        lambda platform: f"Trials on {platform} cannot be frozen, because no keeper runs beside them that could tell "
                         "them to save a checkpoint. Pause the experiment or stop the trials."),
    "frozen_with_experiment": Kind(
        "The trial was frozen because its experiment was paused; it continues when the experiment is resumed.",
        lambda: "Frozen because the experiment was paused. The trial continues from its last checkpoint when the "
                "experiment is resumed."),
    "gave_way": Kind(
        "The trial was frozen because an experiment of higher priority needs its place. It continues when there is "
        "room. priority: that of the other experiment.",
        lambda priority=None: "Frozen because an experiment of higher priority"
                              f"{'' if priority is None else f' ({priority})'} needs its place. The trial continues "
                              "from its last checkpoint when there is room."),
    "gives_way": Kind(
        "Trials of experiments with a higher priority wait for room on the cluster, so none of this experiment starts. "
        "priority: of those.",
        lambda priority: f"Waits because trials of higher priority ({priority}) wait for room on the cluster."),
    "preempting": Kind(
        "Trials of lower priority are being frozen to make room for the trial. count: how many; said: what it waits "
        "for; because: the same with its code.",
        lambda count, said, because=None: (
            f"{count_of(count, 'trial')} of lower priority {'is' if count == 1 else 'are'} being frozen to make room. "
            f"{said}")),
    "priority_quota": Kind(
        "Only quotas allow priorities above 0 to people who are no administrators. asked, most: priorities.",
        lambda asked, most: f"You may use priorities up to {most}, not {asked}. An administrator can allow more in "
                            "your quota. Experiments with a negative priority give way to your others."),
    "free_slot": Kind(
        "A person asked for the trial, or it was frozen and shall go on; it starts as soon as fewer trials run than "
        "trialConcurrency allows.",
        lambda: "The trial waits for a free slot."),
    "experiment_held": Kind(
        "The experiment starts no trials in its present status (PAUSED, for example).",
        lambda status: f"The experiment is {status}. The trial is submitted when the experiment is resumed."),
    "quota": Kind(
        "A quota of the owner or the group, or the limit of the cluster, is used up. unit: trials or gpus. whose: kind "
        "(person, each_person, group, cluster) and name.", _quota),
    "leash_trials": Kind(
        "As many trials of a token are under way as its leash allows. token: its name; most: trials at a time.",
        lambda token, most: (f"Waits for the leash of the token {shown(token)}: at most {count_of(most, 'trial')} at a "
                             f"time. {_TURNS}")),
    "leash_cluster": Kind(
        "The leash of a token does not allow the cluster. cluster: its name, empty where the launch would make it; "
        "allowed: names of those that it allows, empty for all that there are.", _leash_cluster),
    "leash_forbids": Kind(
        "No token with a leash may do this. wish: what.",
        lambda token, wish: (f"The token {shown(token)} has a leash, with which it cannot {wish}. Ask its owner to do "
                             "it.")),
    "token_ended": Kind(
        "A token was ended, and what it ran with it. by: the user name of who ended it, empty where that is not known.",
        lambda token, by="": f"The token {shown(token)} was ended{f' by {by}' if by else ''}."),
    "budget": Kind(
        "A budget is used up, so no trial starts; what runs goes on. unit: gpu_hours, cpu_hours, trials, wall_hours or "
        "money. most: the limit, left: what is left of it. period: month or total. again: the day on which the next "
        "month begins, \"\" of a total. whose: kind (person, each_person, group, token, experiment) and name.",
        _budget),
    "no_budget": Kind(
        "A budget of the owner, the group or the token allows nothing, so that no trial could start. Arguments as with "
        "budget.", _no_budget),
    "quota_too_small": Kind(
        "One trial asks for more GPUs than a quota or the cluster's limit ever allows.", _quota_too_small),
    "experiment_quota": Kind(
        "As many experiments as a quota allows have not ended. whose: kind (person, each_person, group) and name.",
        _experiment_quota),
    "checkpoint_quota": Kind(
        "The server keeps as many bytes of checkpoints as a quota allows. whose: as with experiment_quota.",
        _checkpoint_quota),
    "gpu_quota": Kind(
        "One trial of the experiment would ask for more GPUs than a quota allows. whose: as with experiment_quota.",
        _gpu_quota),
    "gpu_held": Kind(
        "Too few GPUs of the machine are free. held: which jobs or processes use each GPU; jobs are names of trials' "
        "jobs.",
        _gpu_held),
    "machines_busy": Kind(
        "No machine has room. machines: for each machine either a reason of its own, or free and held as with "
        "gpu_held. asked: GPUs.",
        _machines_busy),
    "nodes_busy": Kind(
        "Fewer machines have room than the trial has nodes. free: how many have; machines: the reason of each of the "
        "others, as with machines_busy. asked: GPUs of each node.", _nodes_busy),
    "too_few_machines": Kind(
        "The cluster has fewer machines that can run a node of the trial than the trial has nodes. fit: how many there "
        "are; machines: the reason of each of the others. asked: GPUs of each node.", _too_few_machines),
    "rank_failed": Kind(
        "A rank of a trial with several nodes failed, and the others were ended. said: how it failed; because: the "
        "same with its code; ended: how its command ended (a reason of the keeper protocol); last_lines: what it wrote "
        "last.",
        lambda rank, machine, said, last_lines="", ended="", because=None: _rank_failed(
            rank, machine, said, last_lines)),
    "machine_away": Kind(
        "No trial can be started on the machine now. said: why.",
        lambda machine, said, because=None: f"{machine}: {said}"),
    "every_machine": Kind(
        "None of the cluster's machines can be used now. machines: of some of them name (machine) and reason; count: "
        "of all; common: the code that all of them have, where it is one.", _every_machine),
    "some_machines": Kind(
        "Some of the cluster's machines cannot be used now. machines: of some of them name (machine) and reason; bad: "
        "how many there are; count: of all machines.", _some_machines),
    "cluster_degraded": Kind(
        "The experiment's cluster has lost machines. said: which, and why; because: the same with its code.",
        lambda cluster, said, because=None: f"The cluster {cluster} is degraded. {said}"),
    "cluster_away": Kind(
        "No trial can be started, because the cluster cannot be used. said: why; because: the same with its code.",
        lambda cluster, said, because=None: f"The cluster {cluster} cannot be used now. {said}"),
    "machine_full": Kind(
        "The machine runs as many trials as its maxTrialNumber allows.",
        lambda machine, trials: f"{machine} runs {trials} trial(s), as many as maxTrialNumber allows."),
    "machine_short": Kind(
        "The trial was placed on the machine, but the machine cannot start its keeper now. said: what is missing.",
        lambda machine, said: said),
    "machine_kept": Kind(
        "The machine is reserved for a trial that asks for more of what it has and has waited longer. of: GPUs, or "
        "memory or CPUs.",
        lambda machine, of="GPUs": f"{machine} is reserved for a trial that asks for more {of} and has waited longer."),
    "gpus_not_seen": Kind("The machine's GPUs have not been read yet.", _gpus_not_seen),
    "gpus_unread": Kind("The machine's GPUs cannot be read at the moment. error: what nvidia-smi said.", _gpus_unread),
    "no_python": Kind(
        "The environment whose Python the trials should use does not exist, or their user may not run its Python. "
        "named: the environment; given_by: the option that names it; user: the user of the trials, empty for the "
        "server's own.",
        _no_python),
    "no_container_engine": Kind(
        "The trials name an image (dockerImage), and the machine has no program to run it. engine: the program that "
        "was looked for.",
        lambda machine, engine, image: (
            f"Trials run in the image {image}, and machine {machine} has no {engine} on its PATH. Install podman there "
            "(Debian and Ubuntu: apt-get install podman), or remove dockerImage.")),
    "container_engine_fails": Kind(
        "The program that runs the trials' image does not work on the machine. engine: the program; said: what it "
        "said.",
        lambda machine, engine, said: (
            f"{engine} does not work on machine {machine}{f': {said}' if said else ''}. Try \"{engine} info\" there as "
            "the user of the trials.")),
    "container_not_permitted": Kind(
        "The settings of the server's own machine do not permit the trials' image, its network, or trials without an "
        "image. field: of the experiment; asked: what it says there; permitted: what may be written instead.",
        _container_not_permitted),
    "gpus_faulty": Kind(
        "GPUs of the machine do not work, or their memory has had errors. gpus: of each gpu (its number), fault (lost, "
        "needs_reset, or \"\": it works) and errors. Those with a fault get no trials.", _gpus_faulty),
    "no_nvidia_smi": Kind("The machine has no nvidia-smi, so its GPUs are not known.", _no_nvidia_smi),
    "gpu_missing": Kind(
        "gpuIndices names GPUs that the machine does not have. missing, has: their indices.", _gpu_missing),
    "too_few_gpus": Kind("A trial asks for more GPUs than the machine has.", _too_few_gpus),
    "gpus_too_small": Kind(
        "A trial ran out of the memory of a GPU that it had for itself, and the machine has too few larger ones. "
        "memory: bytes of that GPU; has: how many larger ones there are.",
        lambda machine, asked, has, memory: (
            f"The trial ran out of memory on a GPU with {byte_size(memory)} that it had for itself. It needs "
            f"{count_of(asked)} with more, and machine {machine} has {count_of(has)} with more.")),
    "too_few_gpus_named": Kind("A trial asks for more GPUs than gpuIndices allows.", _too_few_gpus_named),
    "no_machine_fits": Kind(
        "No machine can ever run the trial. machines: the reason of each. asked: GPUs.", _no_machine_fits),
    "gpu_taken": Kind(
        "Another trial took the GPUs (asked is their number), or, where it is 0, the CPUs or the memory, at the same "
        "time. The server tries again immediately.",
        lambda asked: (f"Waits for {f'{asked} GPU(s)' if asked else 'CPUs or memory'}: another trial has just taken "
                       "them.")),
    "machine_share_held": Kind(
        "Other trials hold the CPUs or the memory that the trial waits for. cpus, memory (bytes): what it asks for, 0: "
        "nothing; free_cpus, free_memory: what is left for trials.", _machine_share_held),
    "machine_too_small": Kind(
        "A trial asks for more CPUs or memory than trials may have of the machine. cpus, memory (bytes): what it asks "
        "for, 0: nothing; has_cpus, has_memory: what trials may have.", _machine_too_small),
    "most_objects": Kind(
        "The cluster's maxUnfinishedObjects is reached.",
        lambda unfinished, most: (f"Waits for room: {unfinished} trials are on the cluster, and maxUnfinishedObjects "
                                  f"allows {most}.")),
    "pod_unschedulable": Kind(
        "Kubernetes finds no node for the pod. cause: Kubernetes' name of the reason; said: its message.",
        lambda pod, cause, said: f"Pod {pod} waits for a node ({cause}): {said}"),
    "image_pull": Kind(
        "The node cannot pull the container image. cause: the node's name of the reason; said: its message.",
        _container_waits),
    "container_waits": Kind(
        "A container cannot be started. cause: the node's name of the reason; said: its message.", _container_waits),
    "scheduler": Kind(
        "The scheduler keeps the job in its queue. cause: its own code.",
        lambda scheduler, cause, said: f"Waits in {scheduler}'s queue: {said}"),
    **{code: Kind(meaning, lambda said, platform, cause="", ended="", end=None, because=None, memory="", line="",
                  gpu_total=None: f"{said} {ended}".rstrip())
       for code, meaning in OF_PLATFORMS.items()},
    **{code: Kind(meaning, lambda said: said) for code, meaning in OF_CLUSTERS.items()},
    "service_defect": Kind(
        "A method of the platform's code raised something that is no error of a platform, or returned something "
        "else than it must. method: its name; error: what. The log has the traceback.",
        lambda method, error: f"The platform's code failed in {method} ({error}). See the log."),
    "slow_call": Kind(
        "Calls to the platform have not returned for a long time. calls: for each its name and its seconds.",
        _slow_call),
    "not_submitted": Kind(
        "The platform could not accept the trial at the moment. said: why; because: the same with its code.",
        lambda said, pause, because=None: f"{said} It is submitted again in {pause:g} s."),
    "file_storage": Kind(
        "The storage of files, which has the code of the trial, cannot be used at the moment. what: what it does.",
        lambda what: f"The trial's code is in the server's storage of files, which {what}."),
    "server_short": Kind(
        "The server's machine lacks something that the submission needs, such as free disk space. said: what is wrong.",
        lambda said: f"The server's machine cannot prepare the submission ({said})."),
    "requeued": Kind(
        "The platform put the trial back into its queue.", lambda: "The platform put the trial back into its queue."),
    "not_answering": Kind(
        "The server could not ask the platform about the trial for five minutes.",
        lambda: ("The platform has not answered questions about the trial for 5 minutes. The trial may still be "
                 "running. Its results arrive when it can be reached again.")),
    "keeper_version": Kind(
        "The trial's keeper uses a version of the keeper protocol that this server does not "
        "understand.", _keeper_version),
    "tried_again": Kind(
        "An attempt failed and another one is due. said: how it failed; because: the same with its code.",
        lambda said, number, most, because=None: (
            f"{_full_stop(said or 'It failed')} The trial is run again ({number} of {most}).")),
    "checkpoint_failed": Kind(
        "A checkpoint could not be kept, or (kept is false) not put back in place. problem: why, one of "
        f"{', '.join(_CHECKPOINT_PROBLEMS)}; detail: a path or a number, \"\" for none.", _checkpoint_failed),
    "checkpoint_resumed": Kind(
        "An attempt went on from a checkpoint. step: its step, null where it has none; attempt: the number of the "
        "attempt that saved it; trial: the number of its trial, where that is another one that this trial continues.",
        _checkpoint_resumed),
    "warm_start": Kind(
        "Trials are forked by a process that has imported their modules. memory: bytes that it takes; modules: how "
        "many were named or learned.", lambda machine, modules, memory: (
            f"Trials on machine {machine} are started warm: a process of {byte_size(memory)} "
            f"has imported {count_of(modules, 'module')}, and is forked for each trial.")),
    "plain_start": Kind(
        "A warm start was asked for (warmStart), and trials are started plainly. cause: why, one of "
        f"{', '.join(PLAIN_START_CAUSES)}; detail: a name or a text, \"\" for none.", plain_start),
    "metrics_not_found": Kind(
        "The keeper of a trial could not read metrics where the section metrics says. problem: no_result or one of "
        f"{', '.join(METRIC_PROBLEMS)}; detail: a stream, a file or names, \"\" for none.", metrics_not_found),
    "place_lost": Kind(
        "The job of a warm place ended, or stopped answering, while a trial ran in it or was meant for it. said: what "
        "the platform says of that, \"\" for nothing; because: the same with its code.",
        lambda said="", because=None: (
            f"The job of the warm place in which the trial ran is gone. {said}".rstrip())),
    "place_idle": Kind(
        "A warm place was given back because no trial came for reuseIdle.",
        lambda: "It was given back because no trial came for it for the time reuseIdle."),
    "place_failures": Kind(
        "A warm place was given back because two trials in a row failed in it.",
        lambda: "It was given back because two trials in a row failed in it."),
    "place_limit": Kind(
        "A warm place was given back because the time limit of its job was near.",
        lambda: "It was given back because the time limit of its job was near."),
    "place_unclean": Kind(
        "A warm place was given back because processes or files of a trial could not be removed.",
        lambda: "It was given back because processes or files of a trial could not be removed."),
    "place_not_needed": Kind(
        "A warm place was given back because its experiment needed it no more.",
        lambda: "It was given back because the experiment needed it no more."),
    "no_checkpoints": Kind(
        "The keepers of the platform do not call this server, so they cannot send checkpoints.",
        lambda platform: (f"On {platform} the keepers of trials do not call this server with these settings, so they "
                          "cannot send checkpoints. Remove checkpoints, or let keepers call the server (see "
                          "docs/checkpoints.md).")),
    "refused": Kind(
        "The platform refuses the trial permanently and gives no code. said: why.", lambda said: said),
    "exit_code": Kind("The trial's command ended with this code.", _exit_code),
    "signal": Kind("The trial's command was ended by this signal.", _signal),
    "command_not_found": Kind("The shell did not find the trial's command (exit code 127).", _command_not_found),
    "not_executable": Kind("The trial's command cannot be executed (exit code 126).", _not_executable),
    "not_started": Kind(
        "The keeper could not start the command. said: why.",
        lambda said="", last_words="": f"{said or 'The command could not be started.'}{_last_words(last_words)}"),
    "keeper_lost": Kind(
        "The trial's keeper was killed, and how the trial ended is not known. said: what is known.",
        lambda said="", last_words="": (
            f"{said or 'The keeper of the trial was killed, so how the trial ended is not known.'}"
            f"{_last_words(last_words)}")),
    "time_limit": Kind(
        "The trial ran longer than maxTrialDuration.", lambda: "The trial ran longer than maxTrialDuration allows."),
    "canceled": Kind(
        "A person stopped the trial. by: the user name, where it is known.",
        lambda by="a person": f"Stopped by {by}."),
    "stopped_early": Kind("The assessor, or the tuner, stopped the trial.", lambda: "Stopped early."),
    "canceled_by_platform": Kind("The platform stopped the trial.", lambda: "Stopped by the platform."),
    "canceled_before_start": Kind(
        "The trial was stopped before its platform had started it.",
        lambda: "The trial was stopped before it started."),
    "keeper_stopped": Kind(
        "Something outside of this server stopped the trial's keeper.",
        lambda: "Something outside of this server stopped the trial's keeper (SIGTERM)."),
    "cause": Kind(
        "The platform says why the trial ended, but gives no code. cause: the platform's words; said: how the trial "
        "ended.",
        lambda cause, said="", because=None: f"{cause} {said}".rstrip()),
    "experiment_stopped": Kind("The experiment was stopped.", lambda: "The experiment was stopped."),
    "import_unfinished": Kind(
        "The experiment's import from NNI is under way or was interrupted. foreign_id: its id with NNI.",
        lambda foreign_id: (f"The import of {foreign_id} from NNI is under way or was interrupted. If no import is "
                            "under way, delete this experiment and import it again.")),
    "max_trial_number": Kind(
        "maxTrialNumber is reached. ended: of an experiment that is over, its trials by status.", _max_trial_number),
    "max_duration": Kind(
        "maxExperimentDuration is over.",
        lambda seconds: f"The experiment has run for maxExperimentDuration ({seconds:g} s)."),
    "cluster_disabled": Kind(
        "An administrator has disabled the cluster.",
        lambda cluster: f"The cluster {cluster} is disabled; an administrator can enable it."),
    "no_worker": Kind(
        "No worker process is alive. todo: what starts one.",
        lambda todo: f"No worker is alive, so nothing is started. {todo}"),
    "host_away": Kind(
        "Only the worker of one host can run trials on the cluster, and that worker is not running.",
        lambda cluster, host: (f"The worker on host {host} is not running, and only it can run trials on {cluster}. "
                               "Start the server there.")),
    "home_away": Kind(
        "Nobody drives the cluster from which the experiment on several clusters is searched. said: why; because: the "
        "same with its code.",
        lambda said, because=None: (f"{said} Another cluster of the experiment that has a worker takes over after "
                                    "about half a minute. Until then no new trial starts.")),
    "database_refuses": Kind(
        "The database does not accept writes. refusal: why; room: how much space is free on its disk.",
        lambda refusal, room: (f"The database does not accept writes at the moment ({refusal}).{room} Running trials "
                               "continue, and their reports wait on the trial machines. No new trial is started. All "
                               "work continues automatically when the database accepts writes again.")),
    "not_taken_up": Kind(
        "No worker has started the experiment yet.", lambda: "A worker is about to start the experiment."),
    "paused": Kind(
        "The experiment is paused. left: trials that have not ended. running: those of them that run.", _paused),
    "all_submitted": Kind(
        "The limits of the experiment allow no further trial. left: trials that have not ended.",
        lambda left: ("All trials that the experiment's limits allow were created. The experiment is done when "
                      f"{_unfinished(left)} {'has' if left == 1 else 'have'} ended.")),
    "tuner_waits": Kind(
        "The tuner proposes nothing at the moment. left: trials that have not ended.",
        lambda left: ("The tuner proposes no further parameters at the moment. "
                      f"{_with_capital(_unfinished(left))} left.")),
    "stopping": Kind(
        "The experiment is being stopped. left: trials that have not ended.",
        lambda left: ("The experiment is being stopped."
                      + (f" {_with_capital(_unfinished(left))} left." if left else ""))),
    "code_fetching": Kind(
        "The code of the experiment is being fetched from its Git address.",
        lambda source: f"Fetching the code from {source}."),
    "code_not_fetched": Kind(
        "The code of the experiment could not be fetched from its Git address. said: why.",
        lambda source, said: (f"The code could not be fetched from {source}. {said} Resume the experiment to try "
                              "again, or launch it again with another address.")),
    "annotations_invalid": Kind(
        "The annotations in code that was fetched from a Git address cannot be used. said: what is wrong, and where.",
        lambda source, said: (f"The annotations in the code from {source} cannot be used. {said} Correct them there "
                              "and resume the experiment.")),
    "tuner_failed": Kind(
        "The tuner raised an error. error: what it said.", lambda error: f"The tuner failed: {error}"),
    "rounds_failed": Kind(
        "The server could not carry out the next step of the experiment. error: what failed the last time.",
        lambda times, error: (f"The server could not carry out the experiment's next step {times} times in a row: "
                              f"{error}. The server's log says more. Correct the cause and resume the experiment.")),
    "assessor_failed": Kind(
        "The assessor raised an error. error: what it said.", lambda error: f"The assessor failed: {error}"),
    "tuner_died": Kind(
        "The tuner's process ended several times. error: how it ended the last time.",
        lambda times, error: f"The tuner's process ended unexpectedly {times} times: {error}"),
    "given_up": Kind(
        "As many trials in a row failed as giveUpAfter says. said: why the last of them failed; codes: the codes of "
        "the same.",
        _given_up),
    "equal_failures": Kind(
        "As many trials in a row as giveUpAfterEqual says failed for the same reason, and no trial has succeeded. "
        "said: why the last one failed; because: the same with its code.", _equal_failures),
    "wrong_status": Kind(
        "The experiment's status does not allow a command. wish: pause, resume, archive, delete, submit, propose or "
        "complete.",
        lambda status, wish: _WRONG_STATUS[wish].format(status)),
    "limit_reached": Kind(
        "A limit of the experiment allows no further trial. limit: which, as a sentence; because: the same with its "
        "code; wish: resume, submit or propose.",
        lambda limit, wish, because=None: f"{limit} {_RAISE[wish]}"),
    "trial_not_ended": Kind(
        "Only a trial that has ended can be run again.",
        lambda status: f"The trial is {status}; it can be run again when it has ended."),
    "one_set_only": Kind(
        "The platform cannot give a running trial further parameters, and the experiment has multiPhase.",
        lambda platform: (f"The platform {platform} cannot give a running trial further parameters. Leave multiPhase "
                          "out and let each parameter set be a trial of its own, or choose another platform "
                          "(the page Platforms says which can).")),
    "no_job": Kind(
        "The platform can be asked about a trial only while it has a job there.",
        lambda status: (f"The trial is {status} and has no job on its platform now, so there is nothing to ask the "
                        "platform about.")),
    "nothing_to_rerun": Kind(
        "No failed trial is left to run again.", lambda: "There is no failed trial that has not been run again."),
    "no_such_change": Kind(
        "The experiment has no such change.", lambda number: f"The experiment has no change {number}."),
    "undone_already": Kind(
        "The change is undone. by: the number of the change that did it.",
        lambda number, by: f"Change {number} was already undone by change {by}. Undo change {by} to restore it."),
    "changed_since": Kind("Fields of a change that is to be undone were changed again later.", _changed_since),
    "takes_no_results": Kind(
        "The tuner learns only from trials that it proposed.",
        lambda tuner: f"{tuner} cannot use imported results, because it compares only trials that it proposed."),
    "cluster_unknown": Kind(
        "There is no such cluster, or this person may not use it. known: the clusters that the person may use.",
        lambda cluster, known: (f"There is no cluster named {shown(cluster)} that you may use. Clusters that you "
                                "may use: "
                                f"{', '.join(known) or 'none'}.")),
    "name_taken": Kind(
        "The name is taken. what: the kind of thing it names.",
        lambda what, name: f"There is a {what} named {shown(name)} already."),
    "cluster_in_use": Kind(
        "Experiments use the cluster, or belong to it. said: which, and what to do.", lambda cluster, said: said),
    "not_callable": Kind(
        "Trial machines cannot call this server, because only its loopback address is known.",
        lambda platform: (f"Trials on {platform} must be able to call this server, but only its loopback address is "
                          "known. Set NNIWEB_PUBLIC_URL to an address that trial machines can reach, or set "
                          "nniManagerIp in the config file.")),
    "nni_port_not_open": Kind(
        "The server cannot listen on the experiment's port for NNI's clients. error: what the system says.",
        lambda port, error: (f"The port is not open: {error}. Another program probably uses port {port}. The server "
                             "opens it as soon as it is free.")),
    "no_trial_runs": Kind(
        "All trials wait. because: the reason of the last one, with its code; said: the same as a sentence.",
        lambda said, because: f"No trial is running: {said[:1].lower()}{said[1:]}"),
    "objectives_missing": Kind(
        "The trial succeeded without a finite number for each objective, so the tuner learnt nothing from it. "
        "reported: whether there was a final result; before: what the trial said before.", _objectives_missing),
    "tuner_silent": Kind(
        "The tuner was asked for parameters and has not answered. asked_at: when (UTC); own: whether it is a class of "
        "the user's own that is asked for one thing after another.",
        lambda asked_at, own: (f"The tuner was asked for parameters at {asked_at} (UTC) and has not answered."
                               + (" One that waits for results in generate_parameters needs multiThread: true."
                                  if own else ""))),
    "waits_for_proposals": Kind(
        "The tuner is External: nothing runs until a program proposes parameters. proposed: how many it has so far.",
        lambda proposed: "The tuner is External: a program outside of the server has to propose parameters. It has "
                         f"proposed {proposed or 'none'} so far."),
    "proposals_complete": Kind(
        "The program that proposes parameters has said that no more follow.",
        lambda: "The program that proposes the parameters has said that no more follow."),
    "not_external": Kind(
        "A program proposed parameters to an experiment whose tuner is another one. tuner: its name.",
        lambda tuner: f"The tuner of this experiment is {tuner}. Only an experiment with the tuner External takes "
                      "proposals; change its tuner, or submit a trial with chosen parameters."),
    "too_many_proposals": Kind(
        "As many proposals wait as may. most: how many.",
        lambda most: f"{most} proposals wait for a free slot, and no more may wait. Propose again when some of them "
                     "have started."),
    "too_many_variants": Kind(
        "Trials that have not begun hold as many bytes of changes to the code as may wait. held, most: bytes.",
        lambda held, most: f"Trials of this experiment that have not begun hold {byte_size(held)} of changes to the "
                           f"code, and with these it would be more than {byte_size(most)}. Propose again when some of "
                           "them have started. The same change may come with any number of trials."),
    "key_of_another": Kind(
        "A key names a proposal with other parameters or another change to the code. key, trial: its number; differs: "
        "parameters or variant.",
        lambda key, trial, differs="parameters": f"The key {shown(key)} names trial {trial}, whose "
                                                 f"{_DIFFERS[differs]}. Use a new key."),
    "no_variants": Kind(
        "A trial was to have a variant of the code, and the experiment takes none. why: not_permitted (its config does "
        "not ask for it), not_fetched (its code is not there yet), removed (its code is not there any more).",
        lambda why: _NO_VARIANTS[why]),
    "auto_model": Kind(
        "Auto has few results, which a model of all of them makes the most of. most: up to so many results.",
        lambda most: f"A model of all results finds good parameters with the fewest trials, up to {most} results."),
    "auto_many_results": Kind(
        "Auto has so many results that a model of all of them takes long. most: so many are modelled.",
        lambda most: f"There are more than {most} results, and a model of all of them takes too long."),
    "auto_many_running": Kind(
        "Auto's trials run in such numbers that slow proposals leave slots empty. most: so many may run with a model.",
        lambda most: f"More than {most} trials run at once, which a tuner with quick proposals keeps busy."),
    "auto_large_space": Kind(
        "Auto's search space has more numbers and options than a model learns from few results. columns: how many; "
        "most: so many are modelled.",
        lambda columns, most: (f"The search space has {columns} numbers and options, and a model of few results learns "
                               f"at most {most}.")),
    "auto_objectives": Kind(
        "Auto searches by several objectives. most: up to so many results by a model, then by a population.",
        lambda objectives, most, population: (
            f"There are {objectives} objectives and "
            + (f"more than {most} results, from which a population is bred." if population else
               f"up to {most} results, which a model of them makes the most of."))),
    "auto_not_installed": Kind(
        "Auto would choose the tuner wanted, whose packages are not installed on the server. missing: its modules.",
        lambda wanted, missing: (f"{wanted} would be better, but needs packages that are not installed on the server "
                                 f"({', '.join(missing)}): python -m pip install 'nniweb[tuners]'.")),
    "nothing_proposed": Kind(
        "The tuner answers, and has not proposed any parameters.",
        lambda: "The tuner has not proposed any parameters."),
    "no_trial": Kind(
        "The experiment ended before it had a trial. said: at what; because: the same with its code; why: what kept "
        "trials from starting, as a sentence.",
        lambda said, why="", because=None: f"{said} It ended without a trial. {why}".rstrip()),
    "constraint_broken": Kind(
        "Parameters break one of the experiment's constraints, so no trial is run with them. by: who chose them, tuner "
        "or person.", lambda constraint, by: _BROKEN_BY[by].format(constraint)),
    "proposals_refused": Kind(
        "As many proposals of the tuner in a row as count says broke a constraint. constraint: the last one.",
        lambda count, constraint: (f"The last {count} parameter sets that the tuner proposed all break a constraint "
                                   f"(the last one {constraint}). Use a tuner that knows constraints (a built-in "
                                   "one), or teach yours to learn from failed trials, then resume the experiment.")),
    "constraints_unusable": Kind(
        "Constraints do not fit the search space that the annotations in the code make. said: what is wrong.",
        lambda said: f"The constraints do not fit the search space: {said}. Correct them and launch it again."),
    "outcome_broken": Kind(
        "The trial's result breaks constraints on outcomes, or lacks a metric of one. constraints: of each its text, "
        "the values of the metrics in it and the missing ones; before: what the trial said before.", _outcome_broken),
    "earlier_not_compared": Kind(
        "The experiment started from results of an earlier one, and has too few results of its own to compare them "
        "with.", lambda compared: "There are too few results yet to compare them with those of this experiment."),
    "earlier_agrees": Kind(
        "Results of an earlier experiment agree with those of this one, and lead its search. compared: "
        "results of this one; correlation: Kendall's rank correlation.",
        lambda compared, correlation: (f"They agree with the {compared} results of this experiment (rank correlation "
                                       f"{correlation:.2f}) and lead its search.")),
    "earlier_disagrees": Kind(
        "Results of an earlier experiment do not agree with those of this one, and are not used now. compared: "
        "results of this one; correlation: Kendall's rank correlation.",
        lambda compared, correlation: (f"They do not agree with the {compared} results of this experiment (rank "
                                       f"correlation {correlation:.2f}), so they are not used now.")),
    "tuner_exhausted": Kind(
        "The tuner has no further parameters to try. constraints: those that parameters must satisfy, where there are "
        "any.", lambda constraints=(): "The tuner has no further parameters to try" + (
            f" that satisfy the constraints ({'; '.join(constraints)})." if constraints else ".")),
}
