"""Frameworks of several roles, completion policies, the barrier, and a Framework of the user's own."""

from __future__ import annotations

import json

import pytest
import yaml
from pydantic import ValidationError

from trainingservice.frameworkcontroller.config import FrameworkControllerTrialOptions
from trainingservice.frameworkcontroller.task_roles import CompletionPolicy, TaskRoleSettings
from trainingservice.trial_job_status import TrialJobStatus


def role(name: str, command: str | None = None, **more) -> TaskRoleSettings:
    return TaskRoleSettings(name=name, docker_image="example/trial:1", command=command, **more)


def run(bench, status=TrialJobStatus.SUCCEEDED, command: str = "not used"):
    service = bench.open_service()
    form = bench.form(command)
    service.submit_trial_job(form)
    return form, bench.wait_for_end(service, form, status)


def test_the_worker_reports_wherever_it_stands_and_the_servers_are_stopped(bench) -> None:
    bench.platform.roles = {"task_roles": (role("ps", "sleep 600"), role("worker", 'echo "$FC_TASKROLE_NAME"'))}
    form, _ = run(bench)
    assert bench.output(form) == "worker\n"
    bench.wait("its pods are gone", lambda: bench.platform.cluster.store.all("pods") == [])


def test_failed_tasks_are_a_failure_whatever_the_controller_calls_it(bench) -> None:
    never = CompletionPolicy(min_failed_task_count=-1, min_succeed_task_count=-1)
    bench.platform.roles = {"task_roles": (role("worker", "exit 3", framework_attempt_completion_policy=never),)}
    form, detail = run(bench, TrialJobStatus.FAILED)
    assert detail.exit_code == 3
    [framework] = bench.platform.cluster.store.all("frameworks")
    assert framework["status"]["attemptStatus"]["completionStatus"]["type"]["name"] == "Succeeded"


def test_a_framework_that_somebody_stops_is_canceled_by_the_system_and_says_so(bench, cluster) -> None:
    service = bench.open_service()
    form = bench.form("echo here; sleep 600")
    service.submit_trial_job(form)
    bench.wait("it runs", lambda: bench.output(form))
    [framework] = cluster.store.all("frameworks")
    cluster.store.change("frameworks", "default", framework["metadata"]["name"],
                         lambda item: item["spec"].__setitem__("executionType", "Stop"))
    detail = bench.wait_for_status(service, form, TrialJobStatus.SYS_CANCELED)
    assert "stopped on the cluster by somebody else" in detail.message


def test_the_barrier_brings_the_addresses_of_all_roles(bench, cluster, tmp_path) -> None:
    script = tmp_path / "barrier.sh"
    script.write_text("""cat > "$1/injector.sh" <<'END'
export FB_PS_ADDRESSES=10.42.0.59:$FB_PS_PORT FB_WORKER_IPS=10.42.0.60
END
""")
    cluster.node.image_commands["frameworkcontroller/frameworkbarrier"] = ["sh", str(script), "/mnt/frameworkbarrier"]
    cluster.controllers.admission.service_accounts.add("frameworkbarrier")
    bench.platform.roles = {"service_account_name": "frameworkbarrier", "task_roles": (
        role("ps", "sleep 600"), role("worker", 'echo "$FB_PS_ADDRESSES $FB_WORKER_IPS $FB_WORKER_PORT"'))}
    form, _ = run(bench)
    assert bench.output(form) == "10.42.0.59:4000 10.42.0.60 4001\n"
    [framework] = cluster.store.all("frameworks")
    ports = [task["task"]["pod"]["spec"]["containers"][0]["ports"] for task in framework["spec"]["taskRoles"]]
    assert ports == [[{"containerPort": 4000}], [{"containerPort": 4001}]]


def test_a_framework_of_the_users_own_keeps_what_it_says(bench, cluster, tmp_path) -> None:
    template = {"apiVersion": "frameworkcontroller.microsoft.com/v1", "kind": "Framework",
                "metadata": {"name": "mine", "labels": {"team": "vision"}}, "spec": {
                    "executionType": "Start", "retryPolicy": {"fancyRetryPolicy": True, "maxRetryCount": 2},
                    "taskRoles": [{
                        "name": "worker", "taskNumber": 1,
                        "frameworkAttemptCompletionPolicy": {"minFailedTaskCount": 1, "minSucceededTaskCount": 1},
                        "task": {"gpuNum": 0, "retryPolicy": {"fancyRetryPolicy": False, "maxRetryCount": 0}, "pod": {
                            "spec": {"restartPolicy": "OnFailure", "hostNetwork": False, "containers": [{
                                "name": "own", "image": "example/own:1", "command": ["echo", "from", "the template"],
                                "env": [{"name": "MINE", "value": "kept"}]}]}}}}]}}
    path = tmp_path / "framework.yaml"
    path.write_text(yaml.safe_dump(template))
    bench.platform.roles = {"config_path": path}
    form, _ = run(bench)
    assert bench.output(form) == "from the template\n"
    [made] = cluster.store.all("frameworks")
    assert made["spec"]["retryPolicy"] == {"fancyRetryPolicy": True, "maxRetryCount": 2}
    assert made["metadata"]["labels"]["team"] == "vision"
    assert made["metadata"]["labels"]["nniweb/trial"] == form.job_name
    pod = made["spec"]["taskRoles"][0]["task"]["pod"]["spec"]
    assert pod["restartPolicy"] == "Never"
    assert pod["containers"][0]["image"] == "example/own:1"
    assert {"name": "MINE", "value": "kept"} in pod["containers"][0]["env"]


def of_container(container: object) -> str:
    """A template with this container."""
    return yaml.safe_dump({"spec": {"taskRoles": [{"name": "main", "task": {"pod": {"spec": {
        "containers": [container]}}}}]}})


@pytest.mark.parametrize(("command", "args", "printed"), [
    (["sh", "-c", "echo $0 here; echo there"], None, "sh here\nthere\n"),
    (["echo"], ["of", "args  too", 5], "of args  too 5\n"),
    (["echo one && echo two"], None, "one\ntwo\n"), (["echo", "one", "&&", "echo", "two"], None, "one\ntwo\n"),
    (None, ["unused"], "of the trial\n")], ids=["sh -c", "args", "shell text", "shell words", "args alone"])
def test_a_container_of_a_template_runs_what_it_says(bench, tmp_path, command, args, printed) -> None:
    path = tmp_path / "framework.yaml"
    path.write_text(of_container({"name": "own", "image": "example/own:1", "command": command, "args": args}))
    bench.platform.roles = {"config_path": path}
    service = bench.open_service()
    form = bench.form("echo of the trial")
    service.submit_trial_job(form)
    bench.wait_for_end(service, form)
    assert bench.output(form) == printed


def test_a_template_that_is_removed_while_a_trial_runs_hides_neither_its_end_nor_others(bench, tmp_path) -> None:
    path = tmp_path / "framework.yaml"
    path.write_text(of_container({"name": "own", "image": "example/own:1"}))
    bench.platform.roles = {"config_path": path}
    service = bench.open_service()
    go = bench.witness / "go"
    form = bench.form(f'until [ -e "{go}" ]; do sleep 0.05; done; exit 3')
    service.submit_trial_job(form)
    bench.wait_for_status(service, form, TrialJobStatus.RUNNING)
    path.unlink()
    go.touch()
    assert bench.wait_for_end(service, form, TrialJobStatus.FAILED).exit_code == 3
    assert not service.trouble


@pytest.mark.parametrize(("text", "sentence"), [
    ("spec: {}", "has no spec.taskRoles"), ("{", "cannot be read as YAML"),
    (json.dumps({"spec": {"taskRoles": [{"name": "a"}]}}), "exactly one container"),
    (json.dumps({"spec": {"taskRoles": [{"name": "w" * 45, "task": {"pod": {"spec": {"containers": [
        {"name": "own", "image": "example/own:1"}]}}}}]}}), f"role {'w' * 45}: its name may have"),
    (None, "cannot be read"), ("spec: [1]", "has no spec.taskRoles"),
    ("spec: {taskRoles: [worker]}", "role 0 of"), ("spec: {taskRoles: [{task: {pod: {spec: [1]}}}]}", "not 0"),
    (of_container("x"), "each entry of spec.taskRoles[0].task.pod.spec.containers must be a mapping"),
    (of_container({"command": "python3 train.py"}), "spec.containers[0].command must be a list"),
    (of_container({"command": [["python3"]]}), "each entry of spec.taskRoles[0].task.pod.spec.containers[0]."
                                                "command must be a text"),
    (of_container({"env": {"A": "b"}}), "containers[0].env must be a list"),
    (of_container({"resources": {"limits": ["gpu"]}}), "resources.limits must be a mapping"),
    ("metadata: mine\n" + of_container({}), "metadata must be a mapping")],
    ids=["empty", "broken", "no container", "long name", "missing", "spec", "role", "pod", "container", "command",
         "word", "env", "limits", "metadata"])
def test_a_template_that_cannot_be_used_is_said_before_the_launch(bench, tmp_path, text, sentence) -> None:
    path = tmp_path / "framework.yaml"
    if text is not None:
        path.write_text(text)
    service = bench.platform.new_service(bench.context())
    findings = service.rehearse(quick=True, options=FrameworkControllerTrialOptions(config_path=path))
    service.clean_up()
    assert any(finding.blocks and sentence in finding.message for finding in findings), findings


@pytest.mark.parametrize(("name", "sentence"), [("with-hyphen", "name"), ("w" * 45, f"role {'w' * 45}: its name may"),
                                                ("Worker", "name")])
def test_a_name_that_pods_cannot_have_is_refused_with_the_role(name, sentence) -> None:
    with pytest.raises(ValidationError) as refusal:
        FrameworkControllerTrialOptions.model_validate({"taskRoles": [{"name": name, "taskNumber": 1}]})
    assert sentence in str(refusal.value)


@pytest.mark.parametrize(("resources", "told", "made"), [
    ({}, 2, {"nvidia.com/gpu": "2"}),
    ({"limits": {"memory": "1Gi"}}, 2, {"memory": "1Gi", "nvidia.com/gpu": "2"}),
    ({"limits": {"nvidia.com/gpu": 1}}, 1, {"nvidia.com/gpu": 1}),
    ({"limits": {"nvidia.com/gpu": 0}}, 0, {"nvidia.com/gpu": 0}),
    ({"limits": {"amd.com/gpu": 4}}, 4, {"amd.com/gpu": 4})])
def test_a_template_that_says_nothing_of_gpus_gets_trial_gpu_number(bench, cluster, tmp_path, resources, told,
                                                                   made) -> None:
    path = tmp_path / "framework.yaml"
    path.write_text(yaml.safe_dump({"spec": {"taskRoles": [{"name": "main", "task": {"pod": {"spec": {"containers": [
        {"name": "own", "image": "example/own:1", "command": ["true"], "resources": resources}]}}}}]}}))
    options = FrameworkControllerTrialOptions(config_path=path)
    assert options.with_gpus(2).roles()["main"].gpu_number == told, "what the check looks for on the nodes"
    cluster.node.gpus = 4
    bench.platform.roles = {"config_path": path}
    service = bench.open_service()
    form = bench.form("not used", gpu_number=2)
    service.submit_trial_job(form)
    bench.wait("it is submitted", lambda: cluster.store.all("frameworks"))
    [framework] = cluster.store.all("frameworks")
    [container] = framework["spec"]["taskRoles"][0]["task"]["pod"]["spec"]["containers"]
    assert container["resources"]["limits"] == made
    bench.wait_for_end(service, form)


def test_the_check_tries_each_image_that_roles_have(bench, cluster) -> None:
    bench.form()  # the bench then knows where the server is
    service = bench.platform.new_service(bench.context())
    options = FrameworkControllerTrialOptions(task_roles=(
        role("worker"), role("ps"), TaskRoleSettings(name="other", docker_image="example/other:1"),
        TaskRoleSettings(name="bare", docker_image="example/bare:1", python="no-such-python")))
    found = [finding for finding in service.rehearse(options=options) if finding.check == "trial"]
    service.clean_up()
    assert [(finding.ok, finding.message.partition(" has a suit")[0].partition(" failed")[0]) for finding in found] \
        == [(True, "A test pod with image example/trial:1"), (True, "A test pod with image example/other:1"),
            (False, "A test pod with image example/bare:1")]
    assert "reaches this server" in found[0].message
    assert cluster.store.all("pods") == []
