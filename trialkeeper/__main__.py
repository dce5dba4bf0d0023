"""``keeper.pyz run`` keeps one attempt, ``pod`` the one of a pod, ``ranks`` one on several nodes of a scheduler's job;
``agent`` answers for all attempts on a machine."""

import contextlib
import gc
import os
import sys
from typing import Callable, List, Mapping, NoReturn, Optional

from trialkeeper import contract
from trialkeeper.whole_number import whole_number

_USAGE = """usage: keeper.pyz run | pod | ranks LAUNCHER... | rank | agent

run    keeps one attempt: %s names it, %s the server, %s or %s holds the token
pod    the same in a container of a pod, with the job in a mounted file
ranks  has LAUNCHER start "rank" on all nodes of a job, each of which keeps one rank of the attempt
agent  starts keepers and tells of them, JSON lines on stdin and stdout
""" % (contract.ENV_JOB, contract.ENV_URLS, contract.ENV_TOKEN, contract.ENV_TOKEN_FILE)


def main(arguments: Optional[List[str]] = None) -> int:
    """Exit status of the program."""
    arguments = sys.argv[1:] if arguments is None else arguments
    gc.disable()  # nothing of what is loaded is garbage, and looking for some is a tenth of the work
    try:
        program = _loaded(arguments)
    finally:
        gc.freeze()
        gc.enable()
    return program()


def exit_with(status: int) -> NoReturn:
    """End this process without taking apart what is in its memory, as keepers that an agent forked do."""
    for output in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):  # closed, or nobody reads it any more
            output.flush()
    os._exit(status)


def _loaded(arguments: List[str]) -> Callable[[], int]:
    """What these arguments ask for, with the modules that it needs."""
    if arguments == ["run"]:
        import trialkeeper.keeper  # noqa: F401
        return lambda: _run_or_stay(os.environ, run)
    if arguments == ["pod"]:
        import trialkeeper.keeper  # noqa: F401
        from trialkeeper.pod import run_pod
        return lambda: _run_or_stay(os.environ, lambda environment: run_pod(environment, run))
    if arguments[:1] == ["ranks"] and len(arguments) > 1:
        from trialkeeper.rank_launcher import launch
        return lambda: launch(arguments[1:], os.environ)
    if arguments == ["rank"]:
        from trialkeeper.rank_launcher import run_rank
        return lambda: run_rank(os.environ, run)
    if arguments == ["agent"]:
        from trialkeeper.agent import Agent
        return lambda: Agent().run()
    return _tell_usage


def _tell_usage() -> int:
    sys.stderr.write(_USAGE)
    return 2


def _run_or_stay(environment: Mapping[str, str], keep: Callable[[Mapping[str, str]], int]) -> int:
    """Keep the attempt that the environment describes; where the job is a place, the experiment's next ones, too."""
    if not environment.get(contract.ENV_PLACE):
        return keep(environment)
    from trialkeeper.place import Place
    return Place(environment, keep).run()


def run(environment: Mapping[str, str]) -> int:
    """Keep the attempt that the environment describes."""
    from trialkeeper.access import access_from_environment, saved_access
    from trialkeeper.attempt_folder import default_folder
    from trialkeeper.keeper import Keeper

    job_name = environment.get(contract.ENV_JOB, "")
    if not job_name or "/" in job_name or job_name.startswith("."):
        sys.stderr.write("keeper: set %s to the name of the job\n" % contract.ENV_JOB)
        return 2
    replica = whole_number(environment.get(contract.ENV_REPLICA) or "0")
    if replica is None:
        sys.stderr.write("keeper: %s must be a number, not %r\n"
                         % (contract.ENV_REPLICA, environment[contract.ENV_REPLICA]))
        return 2
    try:
        folder = environment.get(contract.ENV_FOLDER) or default_folder(job_name, replica)
        access = access_from_environment(environment) or saved_access(folder)
    except ValueError as error:
        sys.stderr.write("keeper: %s\n" % error)
        return 2
    except OSError as error:
        sys.stderr.write("keeper: the folder %s cannot be used: %s\n" % (error.filename, error.strerror))
        return 2
    try:
        return Keeper(folder, job_name, access, replica=replica, echo=True,
                      is_run_again=bool(environment.get(contract.ENV_LASTING))).run()
    except OSError as error:
        sys.stderr.write("keeper: the folder %s cannot be used: %s\n" % (folder, error))
        return 2


if __name__ == "__main__":
    exit_with(main())
