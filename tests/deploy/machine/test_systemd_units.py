"""The units of docs/deploy/one-machine as services of a real systemd, installed and used as the README there says.

The tests of this file are about one machine, in their order: the last ones update it and set it up for several hosts.
"""

from __future__ import annotations

import json
import re
import time

import pytest

from tests.deploy.machine.installation import CERTIFICATE, HOME, HOST, Installation, commands_of_the_readme, operation
from tests.deploy.machine.systemd_machine import PATIENCE
from tests.trialkeeper.keeper_run import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

#: A trial that reports 0, 1, 2 ... until a file is there, so that a test decides when it ends.
COUNTS = """
import itertools, pathlib, time, nni
nni.get_next_parameter()
for number in itertools.count():
    nni.report_intermediate_result(number)
    if pathlib.Path('/srv/go').exists():
        break
    time.sleep(0.2)
nni.report_final_result(number)
"""
#: A trial that does what restrictions of a unit could forbid: processes, shared memory, memory that is run, files,
#: namespaces, the home folder, a compiler's cache.
DOES_MUCH = """
import mmap, multiprocessing, os, pathlib, subprocess, sys, nni
from multiprocessing import shared_memory
nni.get_next_parameter()
def square(x):
    return x * x
with multiprocessing.Pool(2) as pool:
    assert pool.map(square, [2, 3]) == [4, 9]
mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
block = shared_memory.SharedMemory(create=True, size=1000000)
block.close(); block.unlink()
pathlib.Path('/tmp/of-a-trial').write_text('x')
pathlib.Path('beside-the-code').write_text('x')
pathlib.Path.home().joinpath('.cache').mkdir(exist_ok=True)
subprocess.run(['unshare', '--user', '--map-root-user', 'true'], check=True)
os.sched_setaffinity(0, os.sched_getaffinity(0))
for kept in ('/usr/of-a-trial', '/etc/of-a-trial', '/opt/nniweb/of-a-trial'):
    try:
        pathlib.Path(kept).write_text('x')
    except OSError:
        continue
    sys.exit(f'{kept} could be written')
nni.report_final_result(1)
"""
REPORTS_X = "import nni\nnni.report_final_result(nni.get_next_parameter()['x'])\n"
#: A trial that leaves a file with whoever it runs as.
LEAVES_A_FILE = REPORTS_X + "open('/tmp/where-a-trial-was', 'w').close()\n"
#: The user's key, and what the service's user must know of the machine that it is for.
KEYS = """
install -d -m 0700 -o nniweb -g nniweb /var/lib/nniweb/.ssh
sudo -u nniweb ssh-keygen -q -t ed25519 -N '' -f /var/lib/nniweb/.ssh/id_ed25519
useradd --create-home --shell /bin/bash ada
install -d -m 0700 -o ada /home/ada/.ssh
install -m 0600 -o ada /var/lib/nniweb/.ssh/id_ed25519.pub /home/ada/.ssh/authorized_keys
systemctl start ssh
echo "nniweb-test $(cat /etc/ssh/ssh_host_ed25519_key.pub)" > /var/lib/nniweb/.ssh/known_hosts
"""


def begin_to_count(machine: Installation) -> tuple[str, str]:
    """An experiment with a running trial that has reported something, and the trial."""
    machine.run("rm", "--force", "/srv/go")
    experiment = machine.launch(COUNTS)
    trial = str(machine.wait_for_trial(experiment, "RUNNING")["id"])
    wait_until(lambda: machine.values(trial), PATIENCE, "the first value")
    return experiment, trial


def end_counting(machine: Installation, experiment: str, trial: str, at_least: int) -> None:
    """Each number that the trial has reported is there, once; it has reported more than ``at_least``."""
    wait_until(lambda: len(machine.values(trial)) > at_least, PATIENCE, "values after the interruption")
    machine.run("touch", "/srv/go")
    ended = machine.wait_for_trial(experiment)
    assert (ended["id"], ended["status"]) == (trial, "SUCCEEDED"), ended
    assert machine.values(trial) == list(range(int(ended["final_number"]) + 1))


def make_the_timer_fire(machine: Installation) -> str:
    """Without waiting for the night: an administrator's drop-in names the next seconds. The name of the backup."""
    machine.shell("""
        drop_in=/etc/systemd/system/nniweb-backup.timer.d
        mkdir $drop_in
        printf '[Timer]\\nOnCalendar=\\nOnCalendar=%s\\nRandomizedDelaySec=0\\nAccuracySec=1s\\n' \\
            "$(date --date='+3 seconds' '+%F %T')" > $drop_in/now.conf
        systemctl daemon-reload
        systemctl restart nniweb-backup.timer""")
    wait_until(lambda: machine.shown("nniweb-backup", "ExecMainExitTimestampMonotonic") != "0", PATIENCE,
               "the timer has made a backup")
    assert machine.shown("nniweb-backup", "Result") == "success", machine.log("nniweb-backup")
    machine.shell("rm -r /etc/systemd/system/nniweb-backup.timer.d; systemctl daemon-reload; "
                  "systemctl restart nniweb-backup.timer")
    [made] = machine.run("ls", "--almost-all", "/var/lib/nniweb-backups").stdout.split()
    return made


def is_stopped(machine: Installation, unit: str) -> bool:
    """As it is to be: it had not to be killed."""
    return (machine.shown(unit, "Result"), machine.shown(unit, "ActiveState")) == ("success", "inactive")


def test_the_commands_of_the_readme_give_a_service_that_runs_as_its_own_user(machine: Installation) -> None:
    assert machine.run("systemctl", "is-enabled", "nniweb", "nniweb-backup.timer").stdout.split() == ["enabled"] * 2
    pid = machine.shown("nniweb", "MainPID")
    assert machine.run("stat", "--format=%U", f"/proc/{pid}").stdout.strip() == "nniweb"
    assert machine.run("stat", "--format=%a %U", "/var/lib/nniweb").stdout.strip() == "700 nniweb"
    assert json.loads(machine.request("/readyz")[1])["ready"] is True
    assert machine.run("systemctl", "--failed", "--plain", "--no-legend").stdout == ""


def test_nginx_serves_it_with_tls(machine: Installation) -> None:
    name = ["--cacert", CERTIFICATE, "--resolve", f"{HOST}:443:127.0.0.1"]
    assert machine.get(f"https://{HOST}/sign-in/", *name)[0] == 200
    status, said = machine.get(f"https://{HOST}/api/v1/experiments/", *name, "--header",
                               f"Authorization: Token {machine.token}")
    assert (status, json.loads(said)["count"]) == (200, 0)


def test_a_tagged_checkout_says_its_version_also_to_the_services_user(machine: Installation) -> None:
    assert machine.nniweb("--version").strip() == f"nniweb {machine.origin.release}"


def test_a_trial_may_do_what_training_needs_and_not_change_the_system(machine: Installation) -> None:
    trial = machine.wait_for_trial(machine.launch(DOES_MUCH))
    assert trial["status"] == "SUCCEEDED", (trial, machine.api(f"trials/{trial['id']}/output/"))
    assert machine.run("cat", "/tmp/of-a-trial").stdout == "x", "there is one /tmp, for the sake of trials"


def test_the_journal_has_the_link_and_each_line_of_the_server_is_an_object(machine: Installation) -> None:
    lines = machine.log().splitlines()
    assert [line for line in lines if f"https://{HOST}/sign-in/" in line]
    said = machine.run("journalctl", "--unit=nniweb", "--output=json", "--no-pager", "_SYSTEMD_UNIT=nniweb.service")
    of_the_server = [json.loads(line)["MESSAGE"] for line in said.stdout.splitlines()]
    assert [line for line in of_the_server if line.startswith("{") and "level" in json.loads(line)]


def test_code_that_is_uploaded_runs(machine: Installation) -> None:
    machine.write("/srv/uploaded/trial.py", REPORTS_X)
    machine.run("tar", "--create", "--gzip", "--file=/srv/uploaded.tar.gz", "--directory=/srv/uploaded", "trial.py")
    machine.write("/srv/uploaded.json", json.dumps(machine.config()))
    launched = machine.api("experiments/", None, "--form", "config=</srv/uploaded.json", "--form",
                           "code=@/srv/uploaded.tar.gz")
    assert machine.wait_for_trial(launched["id"])["status"] == "SUCCEEDED"


def test_code_comes_from_git_and_trials_go_to_a_machine_with_the_services_own_ssh_key(machine: Installation) -> None:
    machine.shell(KEYS)
    machine.write("/home/ada/code/trial.py", LEAVES_A_FILE, "ada")
    machine.shell('cd /home/ada/code && set -- sudo -u ada git -c user.name=Ada -c user.email=ada@example.org && '
                  '"$@" init --quiet && "$@" add . && "$@" commit --quiet --message=code')
    launched = machine.api("experiments/", {
        "config": machine.config(trainingService={"platform": "remote", "machineList": [
            {"host": "nniweb-test", "user": "ada"}]}), "git_url": "ssh://ada@nniweb-test/home/ada/code"})
    trial = machine.wait_for_trial(launched["id"])
    assert trial["status"] == "SUCCEEDED", trial
    assert machine.run("stat", "--format=%U", "/tmp/where-a-trial-was").stdout.strip() == "ada"


def test_a_killed_server_is_started_again_and_nothing_of_a_running_trial_is_lost(machine: Installation) -> None:
    experiment, trial = begin_to_count(machine)
    process = machine.processes_of("python3 trial.py")
    before, values = machine.shown("nniweb", "MainPID"), len(machine.values(trial))
    machine.run("kill", "-KILL", before)
    wait_until(lambda: machine.shown("nniweb", "MainPID") not in ("0", before), PATIENCE, "systemd starts it again")
    machine.wait_until_ready()
    assert machine.shown("nniweb", "NRestarts") == "1"
    assert machine.processes_of("python3 trial.py") == process
    end_counting(machine, experiment, trial, at_least=values)


def test_trials_live_on_while_the_service_is_stopped_and_are_found_at_its_start(machine: Installation) -> None:
    experiment, trial = begin_to_count(machine)
    process = machine.processes_of("python3 trial.py")
    began = time.monotonic()
    machine.run("systemctl", "stop", "nniweb")
    limit = machine.run("systemctl", "show", "--property=TimeoutStopUSec", "--value", "nniweb").stdout.strip()
    assert limit == "1min"
    assert time.monotonic() - began < 60
    assert is_stopped(machine, "nniweb")
    assert machine.request("/readyz") == (0, "")
    assert machine.processes_of("python3 trial.py") == process
    machine.run("systemctl", "start", "nniweb")
    machine.wait_until_ready()
    values = len(machine.values(trial))
    [restart, *_] = operation("restart the server")
    machine.shell(restart)
    machine.wait_until_ready()
    assert machine.processes_of("python3 trial.py") == process
    end_counting(machine, experiment, trial, at_least=values)


def test_the_command_for_it_stops_the_trials_too(machine: Installation) -> None:
    begin_to_count(machine)
    machine.shell("systemctl stop nniweb")
    [kill] = operation("stop the trials, too")
    machine.shell(kill)
    wait_until(lambda: not machine.processes_of("python3 trial.py"), PATIENCE, "the trial's end")
    machine.run("systemctl", "start", "nniweb")
    machine.wait_until_ready()


def test_the_timer_makes_a_backup_while_a_trial_runs_and_it_can_be_put_back(machine: Installation) -> None:
    kept = machine.launch(REPORTS_X)
    value = machine.wait_for_trial(kept)["final_number"]
    experiment, trial = begin_to_count(machine)
    process = machine.processes_of("python3 trial.py")
    server = machine.shown("nniweb", "MainPID")
    made = f"/var/lib/nniweb-backups/{make_the_timer_fire(machine)}"
    assert machine.run("stat", "--format=%a %U", made).stdout.strip() == "600 nniweb"
    assert (machine.is_ready(), machine.shown("nniweb", "MainPID")) == (True, server), "the server was not stopped"

    after = machine.launch(REPORTS_X)
    machine.wait_for_trial(after)
    values = len(machine.values(trial))
    machine.run("systemctl", "stop", "nniweb")
    [restore] = [each for each in operation("restore a backup") if "restore" in each]
    said = machine.shell(f"cd {HOME} && {restore.replace('FILE', made)}")
    machine.run("systemctl", "start", "nniweb")
    machine.wait_until_ready()
    there = [each["id"] for each in machine.api("experiments/?page_size=100")["results"]]
    assert {kept, experiment} <= set(there)
    assert after not in there
    assert machine.wait_for_trial(kept)["final_number"] == value
    # /var/lib is not the service's: the old installation is within its own folder
    [aside] = re.findall(r"moved to (/var/lib/nniweb/before-restore-\S+)\.$", said, re.MULTILINE)
    assert machine.run("stat", "--format=%a %U", aside).stdout.strip() == "700 nniweb"
    # what the running trial reported after the backup is reported again
    assert machine.processes_of("python3 trial.py") == process
    end_counting(machine, experiment, trial, at_least=values)


def test_systemd_puts_the_server_into_the_subgroup_that_the_unit_offers(machine: Installation) -> None:
    machine.shell("sed -i 's/^#DelegateSubgroup=/DelegateSubgroup=/' /etc/systemd/system/nniweb.service; "
                  "systemctl daemon-reload; systemctl stop nniweb; systemctl start nniweb")
    machine.wait_until_ready()
    experiment, trial = begin_to_count(machine)
    group = machine.shown("nniweb", "ControlGroup")
    of_the_server = f"/sys/fs/cgroup{group}/server/cgroup.procs"
    assert machine.shown("nniweb", "MainPID") in machine.run("cat", of_the_server).stdout.split()
    values = len(machine.values(trial))
    machine.run("systemctl", "restart", "nniweb")
    machine.wait_until_ready()
    end_counting(machine, experiment, trial, at_least=values)


def test_an_update_as_the_readme_says_backs_up_and_migrates_while_a_trial_runs(machine: Installation) -> None:
    experiment, trial = begin_to_count(machine)
    process, values = machine.processes_of("python3 trial.py"), len(machine.values(trial))
    version = machine.origin.make_newer_release()
    stop, pull, install, start = [each for each in operation("update") if each.startswith("sudo")]
    for command in (stop, pull, install, start):
        machine.shell(f"cd {HOME} && {command}")
    machine.wait_until_ready()
    assert machine.nniweb("--version").strip() == f"nniweb {version}"
    [backup] = machine.run("ls", "/var/lib/nniweb/backups").stdout.split()
    assert backup.startswith(f"before-{version}-")
    assert machine.processes_of("python3 trial.py") == process
    end_counting(machine, experiment, trial, at_least=values)
    assert machine.wait_for_trial(machine.launch(REPORTS_X))["status"] == "SUCCEEDED"


def test_web_processes_and_a_worker_with_postgresql_and_redis_take_the_services_place(machine: Installation) -> None:
    machine.shell("systemctl disable --now nniweb")
    wait_until(lambda: machine.run("pg_isready", check=False).returncode == 0, PATIENCE, "PostgreSQL answers")
    for statement in ("CREATE ROLE nniweb LOGIN PASSWORD 'of-tests'", "CREATE DATABASE nniweb OWNER nniweb"):
        machine.run("sudo", "-u", "postgres", "psql", "--command", statement)
    machine.shell("printf '%s\\n' \"$@\" >> /etc/nniweb/nniweb.env",
                  "NNIWEB_DATABASE_URL=postgres://nniweb:of-tests@127.0.0.1/nniweb",
                  "NNIWEB_REDIS_URL=redis://127.0.0.1/0", f"NNIWEB_CA_FILE={CERTIFICATE}")
    # trials of workers report to the public address
    machine.shell(f"echo 127.0.0.1 {HOST} >> /etc/hosts; sed -i "
                  "'s/server 127.0.0.1:8080;/server 127.0.0.1:8081; server 127.0.0.1:8082;/' "
                  "/etc/nginx/conf.d/nniweb.conf; nginx -t; systemctl reload nginx")
    [script] = commands_of_the_readme("Several hosts, without containers")
    machine.shell(f"cd {HOME}\n{script}")
    units = {"nniweb-web@8081": 8081, "nniweb-web@8082": 8082, "nniweb-worker": 8090}
    for unit, port in units.items():
        machine.wait_until_ready(port, unit)
    machine.use(8082)
    experiment, trial = begin_to_count(machine)
    process, values = machine.processes_of("python3 trial.py"), len(machine.values(trial))
    machine.run("systemctl", "kill", "--signal=KILL", "--kill-whom=main", *units)
    for unit, port in units.items():
        wait_until(lambda unit=unit: machine.shown(unit, "NRestarts") == "1", PATIENCE, f"{unit} is started again")
        machine.wait_until_ready(port, unit)
    machine.run("systemctl", "stop", *units)
    assert [unit for unit in units if not is_stopped(machine, unit)] == []
    machine.run("systemctl", "start", *units)
    for unit, port in units.items():
        machine.wait_until_ready(port, unit)
    assert machine.processes_of("python3 trial.py") == process
    end_counting(machine, experiment, trial, at_least=values)


def test_the_log_has_no_errors(machine: Installation) -> None:
    """After the tests above."""
    lines = machine.shell("journalctl --output=cat --no-pager --unit='nniweb*.service' --boot").splitlines()
    said = [json.loads(line) for line in lines if line.startswith("{")]
    assert said
    assert [each for each in said if each.get("level") in ("ERROR", "CRITICAL")] == []
    assert "Traceback" not in "\n".join(lines)
