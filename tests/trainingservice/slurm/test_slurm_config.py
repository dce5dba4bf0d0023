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


@pytest.mark.parametrize("line", [
    "--arr=1-9", "--arra 1-9", "-a1-9", "-Ha1-9", "-N2", "-n4", "--constraint=x --array=1-9", "-C x -a 1-9",
    '--ar"ray"=1-9', '--"array=1-9"', "--no", "--job-name=x", "-Jx", "--output=/x", "-o/x", "--err=/x",
    "--input=x", "--chdir=/", "-D/", "--comment=nniweb:another", "--open-mode=truncate", "--requeue", "--no-requeue",
    "--dependency=afterany:1", "-d1", "--clusters=other", "-Mother", "--wrap=id", "--uid=0", "--gid=0", "--test-only",
    "--parsable", "--help", "-V", "--get-user-env", "--wait", "-W"])
def test_lines_do_not_say_again_what_the_server_says(line):
    with pytest.raises(ValidationError, match="cannot be used here"):
        SlurmTrialOptions(sbatch_lines=(line,))


@pytest.mark.parametrize("line", [
    "--x\r--array=1-9", "--x\x0bid", "--x\x85id", "--x\u2028id", "--x\x00", "--ar\\ray=1-9", '--comm"ent=x',
    "-" + "x" * 1000, " --x", "id", "# x", "\ud800"])
def test_lines_that_sbatch_and_the_shell_could_read_otherwise_are_refused(line):
    with pytest.raises(ValidationError) as refused:
        SlurmTrialOptions(sbatch_lines=(line,))
    assert len(str(refused.value)) < 1000


@pytest.mark.parametrize("line", [
    "--constraint=skylake", "--exclude=n13", "-x n13", "-xn13", "--nodelist=n1,n2", "-w n1", "--exclusive", "--mem=4G",
    "--nice=10", "--begin=now+1hour", '--mail-user="a@b.example"', "--mail-type=FAIL --mail-user=a@b.example",
    "--export=NONE", "--hint=nomultithread", "--licenses=matlab:1", "-H", "--signal=B:USR1@60", "--gpus-per-task=1"])
def test_other_options_may_be_added_one_or_several_in_a_line(line):
    options = SlurmTrialOptions(sbatch_lines=(line,))
    assert f"#SBATCH {line}\n" in job_script(options, "/k.pyz", "/shared/f", {})


def test_there_is_a_most_of_lines():
    with pytest.raises(ValidationError, match="at most 100 entries"):
        SlurmTrialOptions(sbatch_lines=("--exclusive",) * 101)


@pytest.mark.parametrize("field", ["partition", "account", "qos", "reservation", "gpu_type"])
@pytest.mark.parametrize("name", ["--uid=0", "a b", "x;y", "", "$(id)", "a\nb", "'", '"', "x" * 10_000])
def test_names_that_are_more_than_names_are_refused(field, name):
    with pytest.raises(ValidationError):
        SlurmTrialOptions(**{field: name})


@pytest.mark.parametrize("text", ["ib", "ib&skylake", "(a100|h100)&ib", "[rack1*2&rack2*4]", "a_b-c.d"])
def test_features_are_written_as_slurm_has_them(text):
    assert f"--constraint={text}" in sbatch_options(SlurmTrialOptions(constraint=text), None)


@pytest.mark.parametrize("text", ["", "a b", "$(id)", "a;b", "a\nb", "-x", "'a'", "a\\b", "x" * 10_000])
def test_other_features_are_refused(text):
    with pytest.raises(ValidationError):
        SlurmTrialOptions(constraint=text)


@pytest.mark.parametrize(("options", "number", "gres"), [
    ({}, None, None), ({}, 0, None), ({}, 2, "--gres=gpu:2"), ({"gpu_type": "a100"}, 2, "--gres=gpu:a100:2"),
    ({"gres": "gpu:a100:1,shard:4"}, 2, "--gres=gpu:a100:1,shard:4"),
])
def test_gpus_become_generic_resources(options, number, gres):
    found = [word for word in sbatch_options(SlurmTrialOptions(**options), number) if word.startswith("--gres")]
    assert found == ([gres] if gres else [])


@pytest.mark.parametrize(("options", "number", "gigabytes", "gres"), [
    ({}, 1, 6, "gpu:1"), ({"gpuShardMemory": "1gb"}, 1, 0, "gpu:1"), ({"gpuShardMemory": "1gb"}, 1, 5.5, "shard:6"),
    ({"gpuShardMemory": "4gb"}, 1, 4, "shard:1"), ({"gpuShardMemory": "1gb"}, 2, 6, "gpu:2"),
    ({"gpuShardMemory": "1gb", "reuseMode": True}, 1, 6, "gpu:1"),
    ({"gpuShardMemory": "1gb", "nodes": 2}, 1, 6, "gpu:1"),
    ({"gpuShardMemory": "1gb", "gpuType": "a100"}, 1, 6, "gpu:a100:1"),
    ({"gpuShardMemory": "1gb", "gres": "shard:3"}, 1, 6, "shard:3")])
def test_a_trial_that_needs_a_part_of_a_gpu_asks_for_shards_where_there_are_some(options, number, gigabytes, gres):
    words = sbatch_options(SlurmTrialOptions.model_validate(options), number, int(gigabytes * 1024 ** 3))
    assert f"--gres={gres}" in words


def test_what_is_left_out_is_left_to_the_cluster():
    assert sbatch_options(SlurmTrialOptions(), None) == ["--nodes=1", "--ntasks=1", "--cpus-per-task=1"]


def test_all_that_is_asked_for_reaches_sbatch():
    options = SlurmTrialOptions(partition="gpu,short", account="lab17", qos="high", trial_cpu_number=4,
                                constraint="a100", reservation="maintenance",
                                trial_memory_size="1.5gb", sbatch_lines=("--constraint=ib",), requeue=True)
    words = job_options(form(options, gpu_number=1), options, "nniweb-t", "/shared/f", "home")
    assert {"--partition=gpu,short", "--account=lab17", "--qos=high", "--constraint=a100",
            "--reservation=maintenance", "--cpus-per-task=4", "--mem=1536M", "--requeue",
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
