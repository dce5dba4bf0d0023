"""A thread that lives as long as its process begins again where it fails; others are known, with the reason why not."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
#: Where plain threads are made, and why one that fails leaves nothing undone for good.
PLAIN = {
    "nniweb/dashboard/account/password_reset.py": "one mail",
    "nniweb/experiments/clusters/platform_calls.py": "one call",
    "nniweb/nni_experiment/manager.py": "one connection, whose failure is answered; and each request fails alone",
    "nniweb/observability/trace_export.py": "it waits for the end of the process, to send what is left",
    "nniweb/process/forced_exit.py": "it ends the process",
    "nniweb/storage/elsewhere.py": "one question",
    "nniweb/tensorboard/launcher.py": "of a process that ends with its parent",
    "nniweb/tensorboard/runner.py": "one TensorBoard; whoever looks at it starts another",
    "nniweb/tuning/custom_algorithms/calls.py": "one call; what it raises the next call of the class raises",
    "nniweb/tuning/process/tuner_child.py": "of one process; where it fails the process is ended, and that is reported",
    "nniweb/tuning/process/tuner_process.py": "of the tuners' process, which ends with it",
    "nniweb/worker/cluster_host/call_threads.py": "what a call raises is logged, and the thread goes on",
    "nniweb/worker/rounds/runner.py": "the supervisor begins the cluster's rounds anew",
    "nniweb/worker/cluster_host/service_host.py": "the service is built anew",
    "nniweb/worker/notifications/webhook_call.py": "one call",
    "trainingservice/keeper/agent_client.py": "of one agent; where it fails the agent is ended, and another started",
    "trainingservice/keeper/container_images.py": "one question, which is answered whatever happens",
    "trainingservice/kubernetes_base/service.py": "one question",
    "trainingservice/lasting_thread.py": "the one that begins again",
    "trainingservice/ssh/connection.py": "it closes one channel when its time is over",
    "trainingservice/ssh/proxy_command.py": "of one connection, which is made anew",
    "trainingservice/remote/service.py": "one look, and the end of machines",
    "trainingservice/secrets_in_use.py": "the class of threads that know the secrets of their work",
}


def test_threads_that_are_made_plainly_are_those_that_may_be() -> None:
    found = {str(path.relative_to(ROOT)) for package in ("nniweb", "trainingservice")
             for path in (ROOT / package).rglob("*.py")
             if re.search(r"threading\.(Thread|Timer)\(|\bServiceThread\(", path.read_text())
             and "testing" not in path.parts and "bundled" not in path.parts}
    assert found == PLAIN.keys(), "use trainingservice.lasting_thread.LastingThread, or say here why not"
