"""A share is mounted on each machine before its trials start; where it cannot be, trial and rehearsal say so."""

import os
from contextlib import closing
from pathlib import Path

import pytest

from tests.fakes.ssh_machine import needs_root
from trainingservice.remote.config import RemoteClusterSettings
from trainingservice.shared_folder.shared_storage import SharedStorage
from trainingservice.trial_job_status import TrialJobStatus

NFS = {"storage_type": "NFS", "nfs_server": "files.lab.example", "exported_directory": "/export/nni",
       "local_mounted": "nomount", "local_mount_point": "/mnt/nowhere"}
BLOB = {"storage_type": "AzureBlob", "storage_account_name": "lab", "storage_account_key": "s3cret key",
        "container_name": "trials", "local_mounted": "nomount", "local_mount_point": "/mnt/nowhere"}


def program(machine, name, text):
    path = machine.programs / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


@pytest.fixture
def share(tmp_path):
    folder = tmp_path / "exported"
    folder.mkdir()
    return folder


@pytest.fixture
def machine(bench, make_machine, share):
    """With a mount table of its own, and a ``mount`` that finds the file server's folder on this disk."""
    needs_root()
    machine = make_machine(own_identity=True)
    program(machine, "mount", f'echo "$@" >> "{machine.folder}/mounts"\n'
                              f'[ "$1 $2 $3" = "-t nfs files.lab.example:/export/nni" ] && '
                              f'exec /bin/mount --bind "{share}" "$4"\nexec /bin/mount "$@"')
    bench.platform.machine_list = [machine.settings()]
    return machine


def run(bench, service, form):
    service.submit_trial_job(form)
    bench.wait_for_end(service, form)


def use(bench, machine, fields):
    point = machine.folder / "mnt" / "share"
    bench.platform.more = {"shared_storage": SharedStorage(remote_mount_point=str(point), **fields)}
    return point


def test_trials_write_to_the_share_which_is_mounted_once(bench, machine, share):
    point = use(bench, machine, NFS)
    service = bench.open_service()
    forms = [bench.form('echo $NNI_OUTPUT_DIR; echo done > "$NNI_OUTPUT_DIR/result"') for _ in range(3)]
    run(bench, service, forms[0])
    for form in forms[1:]:
        service.submit_trial_job(form)
    for form in forms[1:]:
        bench.wait_for_end(service, form)
    for form in forms:
        below = Path("nni") / form.experiment_id / "trials" / form.trial_job_id / "nnioutput"
        assert (share / below / "result").read_text() == "done\n"
        assert bench.output(form).strip() == str(point / below)
        with closing(service.output_folder(service.get_trial_job(form.job_name))) as folder:
            assert [(file.name, folder.read(file.name, 0).content) for file in folder.list_files().files] \
                == [("result", b"done\n")]
    assert (machine.folder / "mounts").read_text().count("nfs") == 1
    assert not os.path.ismount(point), "it is the machine's mount, not ours"


def test_a_relative_mount_point_is_below_the_home_folder_of_the_login(bench, machine, share):
    bench.platform.more = {"shared_storage": SharedStorage(remote_mount_point="mnt/share", **NFS)}
    service = bench.open_service()
    form = bench.form('cd / && echo done > "$NNI_OUTPUT_DIR/result"')
    run(bench, service, form)
    below = Path("nni") / form.experiment_id / "trials" / form.trial_job_id / "nnioutput"
    assert (share / below / "result").read_text() == "done\n"
    assert f"{machine.home}/mnt/share" in (machine.folder / "mounts").read_text()
    with closing(service.output_folder(service.get_trial_job(form.job_name))) as folder:
        assert [file.name for file in folder.list_files().files] == ["result"]
    finding = next(finding for finding in service.rehearse() if finding.check == "storage")
    assert finding.ok
    assert finding.message == f"The share is mounted at {machine.home}/mnt/share."


def test_a_share_that_cannot_be_mounted_fails_the_trial_and_blocks_the_rehearsal_with_one_sentence(bench, machine):
    use(bench, machine, NFS | {"nfs_server": "nobody.lab.example"})
    program(machine, "mount", "echo 'mount.nfs: Connection refused for nobody.lab.example' >&2; exit 32")
    service = bench.open_service()
    finding = next(finding for finding in service.rehearse() if finding.check == "storage")
    assert finding.blocks
    assert "nobody.lab.example:/export/nni cannot be mounted" in finding.message
    assert "Connection refused" in finding.message
    assert "nfs-common" in finding.message
    form = bench.form("echo ran")
    service.submit_trial_job(form)
    detail = bench.wait_for_end(service, form, TrialJobStatus.FAILED)
    assert detail.exit_code == 73
    assert "cannot be mounted" in bench.output(form, "stderr")
    assert bench.output(form) == ""


def test_a_share_that_this_user_cannot_write_is_said_by_the_rehearsal(bench, machine, share):
    point = use(bench, machine, NFS)
    program(machine, "mount", f'exec /bin/mount -t tmpfs -o ro none "{point}"')
    service = bench.open_service()
    finding = next(finding for finding in service.rehearse() if finding.check == "storage")
    assert finding.blocks
    assert "cannot be written by" in finding.message


def test_what_is_mounted_already_is_used_as_it_is(bench, machine, share):
    point = use(bench, machine, NFS)
    service = bench.open_service()
    run(bench, service, bench.form(f'/bin/mount --bind "{share}" "{point}"'))
    program(machine, "mount", "echo 'nobody shall call this' >&2; exit 1")
    run(bench, service, bench.form("true"))
    assert next(finding for finding in service.rehearse() if finding.check == "storage").ok


def test_a_blob_container_is_mounted_with_a_key_that_trials_do_not_see(bench, machine, share):
    use(bench, machine, BLOB)
    program(machine, "blobfuse2", 'echo "$AZURE_STORAGE_ACCOUNT $AZURE_STORAGE_ACCESS_KEY $@" > '
                                  f'"{machine.folder}/said"\nexec /bin/mount --bind "{share}" "$2"')
    service = bench.open_service()
    form = bench.form("env")
    run(bench, service, form)
    said = (machine.folder / "said").read_text()
    assert said.startswith("lab s3cret key mount ")
    assert "--container-name=trials" in said
    assert "s3cret" not in bench.output(form)


@pytest.mark.parametrize(("local_mounted", "is_mounted", "says"), [
    ("nomount", False, None), ("usermount", False, "nothing is mounted at"), ("usermount", True, "is mounted at"),
    ("nnimount", True, "is mounted at")])
def test_the_mount_on_the_server_is_looked_at_as_the_file_says(
        bench, machine, tmp_path, local_mounted, is_mounted, says):
    here = Path("/proc") if is_mounted else tmp_path / "not mounted"
    if local_mounted == "nnimount":
        here = Path("/dev/shm")
    use(bench, machine, NFS | {"local_mounted": local_mounted, "local_mount_point": here})
    findings = [finding for finding in bench.open_service().rehearse() if finding.check == "storage"]
    on_server = [finding for finding in findings if finding.machine == ""]
    assert findings[0].ok
    assert not any(finding.blocks for finding in on_server)
    assert [says in finding.message for finding in on_server] == ([] if says is None else [True])


def test_only_administrators_have_the_server_mount_something(machine):
    settings = RemoteClusterSettings(machine_list=(replace_key(machine.settings()),),
                                     shared_storage=SharedStorage(remote_mount_point="/mnt/a", **NFS))
    assert settings.borrowed_from_the_server() == ""
    ours = settings.model_copy(update={"shared_storage": settings.shared_storage.model_copy(
        update={"local_mounted": "nnimount"})})
    assert "mount" in ours.borrowed_from_the_server()


def replace_key(settings):
    return settings.model_copy(update={"password": "secret", "ssh_key_file": None})


def test_an_incomplete_storage_names_what_is_missing():
    with pytest.raises(ValueError, match="nfsServer and exportedDirectory must be given for storageType NFS"):
        RemoteClusterSettings(machine_list=({"host": "ada", "user": "me"},), shared_storage=SharedStorage(
            storage_type="NFS", remote_mount_point="/mnt/a", local_mount_point="/mnt/b", local_mounted="nomount"))
