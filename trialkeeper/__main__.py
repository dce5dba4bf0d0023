"""``keeper.pyz run`` keeps one attempt, ``pod`` the one of a pod, ``ranks`` one on several nodes of a scheduler's job;
``agent`` answers for all attempts on a machine."""

import os
import sys
from typing import Callable, List, Mapping, Optional

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
    if arguments == ["run"]:
        return _run_or_stay(os.environ, run)
    if arguments == ["pod"]:
        from trialkeeper.pod import run_pod
        return _run_or_stay(os.environ, lambda environment: run_pod(environment, run))
    if arguments[:1] == ["ranks"] and len(arguments) > 1:
        from trialkeeper.rank_launcher import launch
        return launch(arguments[1:], os.environ)
    if arguments == ["rank"]:
        from trialkeeper.rank_launcher import run_rank
        return run_rank(os.environ, run)
    if arguments == ["agent"]:
        from trialkeeper.agent import Agent
        return Agent().run()
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
    folder = environment.get(contract.ENV_FOLDER) or default_folder(job_name, replica)
    try:
        access = access_from_environment(environment) or saved_access(folder)
    except ValueError as error:
        sys.stderr.write("keeper: %s\n" % error)
        return 2
    try:
        return Keeper(folder, job_name, access, replica=replica, echo=True,
                      is_run_again=bool(environment.get(contract.ENV_LASTING))).run()
    except OSError as error:
        sys.stderr.write("keeper: the folder %s cannot be used: %s\n" % (folder, error))
        return 2


if __name__ == "__main__":
    sys.exit(main())
