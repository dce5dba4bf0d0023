"""What may stand in the slurm section of an experiment file."""

import pytest
from pydantic import ValidationError

from trainingservice.slurm.config import SlurmClusterSettings, SlurmTrialOptions
from trainingservice.slurm.job_script import job_options, job_script, sbatch_options
from trainingservice.ssh.login_settings import SshLoginSettings
from trainingservice.trial_job import HyperParameters, JobApplicationForm, KeeperAccess

LOGIN = {"host": "login.example", "user": "ada"}


def form(options: SlurmTrialOptions, **more) -> JobApplicationForm:
    return JobApplicationForm(
        job_name="tabcdefghijk", trial_job_id="tabcdefghijk", experiment_id="e1", sequence_id=0,
        hyper_parameters=HyperParameters("{}"), command="true",
        keeper=KeeperAccess(("http://server:8000",), "very secret"), options=options, **more)


@pytest.mark.parametrize("folder", ["nniweb", "~/nniweb", "/home/ada/my files", "/a'b", "/x$HOME", "/x%u", ""])
def test_a_folder_that_is_not_the_same_everywhere_is_refused(folder):
    with pytest.raises(ValidationError, match="absolute path"):
        SlurmClusterSettings(working_folder=folder)


@pytest.mark.parametrize("text", ["90", "90:30", "4:00:00", "2-12", "2-12:30", "2-12:30:00"])
def test_times_are_written_as_sbatch_has_them(text):
    assert f"--time={text}" in sbatch_options(SlurmTrialOptions(time_limit=text), None)


@pytest.mark.parametrize("text", ["4h", "1:2:3", "-5", "4:00:00 --uid=0", "UNLIMITED!"])
def test_other_times_are_refused(text):
    with pytest.raises(ValidationError, match="4:00:00"):
        SlurmTrialOptions(time_limit=text)


@pytest.mark.parametrize("line", ["constraint=x", "--x\n--uid=0", "--array=1-9", "--nodes=2", "-N 2", "--ntasks=4", ""])
def test_lines_that_are_no_option_or_make_more_than_one_job_are_refused(line):
    with pytest.raises(ValidationError):
        SlurmTrialOptions(sbatch_lines=(line,))


@pytest.mark.parametrize("name", ["--uid=0", "a b", "x;y", "", "$(id)"])
def test_names_that_are_more_than_names_are_refused(name):
    with pytest.raises(ValidationError):
        SlurmTrialOptions(partition=name)


@pytest.mark.parametrize(("options", "number", "gres"), [
    ({}, None, None), ({}, 0, None), ({}, 2, "--gres=gpu:2"), ({"gpu_type": "a100"}, 2, "--gres=gpu:a100:2"),
    ({"gres": "gpu:a100:1,shard:4"}, 2, "--gres=gpu:a100:1,shard:4"),
])
def test_gpus_become_generic_resources(options, number, gres):
    found = [word for word in sbatch_options(SlurmTrialOptions(**options), number) if word.startswith("--gres")]
    assert found == ([gres] if gres else [])


def test_what_is_left_out_is_left_to_the_cluster():
    assert sbatch_options(SlurmTrialOptions(), None) == ["--nodes=1", "--ntasks=1", "--cpus-per-task=1"]


def test_all_that_is_asked_for_reaches_sbatch():
    options = SlurmTrialOptions(partition="gpu,short", account="lab17", qos="high", trial_cpu_number=4,
                                trial_memory_size="1.5gb", sbatch_lines=("--constraint=ib",), requeue=True)
    words = job_options(form(options, gpu_number=1), options, "nniweb-t", "/shared/f", "home")
    assert {"--partition=gpu,short", "--account=lab17", "--qos=high", "--cpus-per-task=4", "--mem=1536M", "--requeue",
            "--gres=gpu:1", "--job-name=nniweb-t", "--chdir=/shared/f", "--output=/shared/f/slurm.out"} <= set(words)
    assert "#SBATCH --constraint=ib\n" in job_script(options, "/k.pyz", "/shared/f", {})


def test_no_token_is_on_the_command_line_or_in_the_script():
    options = SlurmTrialOptions()
    job = form(options)
    words = job_options(job, options, "nniweb-t", "/shared/f", "home")
    assert "very secret" not in " ".join(words) + job_script(options, "/k.pyz", "/shared/f", {"A": "b c"})
    assert "--no-requeue" in words


def test_whose_account_is_borrowed_is_said():
    own = SlurmClusterSettings(working_folder="/home/x")
    assert "own user" in own.borrowed_from_the_server()
    by_key = SlurmClusterSettings(working_folder="/home/x", login_node=SshLoginSettings(**LOGIN))
    assert "SSH keys" in by_key.borrowed_from_the_server()
    by_password = SlurmClusterSettings(working_folder="/home/x", login_node=SshLoginSettings(**LOGIN, password="x"))
    assert by_password.borrowed_from_the_server() == ""
