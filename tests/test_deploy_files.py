"""The files in docs/deploy for one machine and for containers, read by the programs that will read them."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from compose_spec import PyCompose

from tests.fakes.tls_certificate import make_certificate

ROOT = Path(__file__).resolve().parents[1]
DEPLOY = ROOT / "docs" / "deploy"
ONE_MACHINE, CONTAINERS = DEPLOY / "one-machine", DEPLOY / "containers"


def compose() -> dict[str, Any]:
    return yaml.safe_load((CONTAINERS / "compose.yml").read_text())


# --- containers --------------------------------------------------------------------------------


def test_the_compose_file_is_one_and_a_misspelt_key_would_be_noticed() -> None:
    document = json.dumps(compose())  # YAML's merges (<<) are made by who reads YAML
    spec = PyCompose.from_json(document).to_dict()
    assert set(spec["services"]) == {"nniweb-migrate", "nniweb-web", "nniweb-worker", "nniweb-proxy",
                                     "nniweb-postgresql", "nniweb-redis"}
    with pytest.raises(Exception, match="helthcheck"):
        PyCompose.from_json(document.replace('"healthcheck":', '"helthcheck":', 1))


def test_what_the_services_name_is_there() -> None:
    document = compose()
    for name, service in document["services"].items():
        for secret in service.get("secrets", []):
            assert secret in document["secrets"], name
        for needed in service.get("depends_on", {}):
            assert needed in document["services"], name
            if service["depends_on"][needed]["condition"] == "service_healthy":
                assert "healthcheck" in document["services"][needed], needed
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            if source in ("./nginx.conf", "../nginx/nniweb-proxy.conf"):
                assert (CONTAINERS / source).is_file()
            else:
                assert source == "./tls" or source in document["volumes"], volume
        for variable, value in (service.get("environment") or {}).items():
            if variable.endswith("_FILE"):
                assert value.removeprefix("/run/secrets/") in service["secrets"], f"{name}: {variable}"
    build = document["services"]["nniweb-web"]["build"]
    assert ((CONTAINERS / build["context"]).resolve(), (ROOT / build["dockerfile"]).is_file()) == (ROOT, True)
    assert [document["services"][name]["deploy"]["replicas"] for name in ("nniweb-web", "nniweb-worker")] == [2, 2]


def test_the_secrets_it_names_are_those_that_are_made_and_they_lead_to_its_services(tmp_path: Path) -> None:
    made = tmp_path / "secrets"
    subprocess.run([sys.executable, str(DEPLOY / "kubernetes" / "several" / "make_secrets.py"), str(made)], check=True)
    document = compose()
    assert {path.name for path in made.iterdir()} == set(document["secrets"])
    assert made.stat().st_mode & 0o777 == 0o700
    for name in ("database-url", "redis-url"):
        [host] = re.findall(r"@([^:/]+)", (made / name).read_text())
        assert host in document["services"]
    assert (made / "database-password").read_text() in (made / "database-url").read_text()


def test_every_setting_that_is_used_there_exists() -> None:
    known = set(re.findall(r'(?:text|number|boolean|names)\("(NNIWEB_\w+)"', (ROOT / "nniweb/settings.py").read_text()))
    used = set(re.findall(r"^\s*(NNIWEB_\w+?)(?:_FILE)?[:=]", "\n".join(
        path.read_text() for path in (CONTAINERS / "compose.yml", ONE_MACHINE / "nniweb.env")), re.M))
    assert used
    assert used <= known


def test_the_image_leaves_out_what_is_secret_or_of_this_checkout_and_does_not_run_as_root() -> None:
    ignored = (ROOT / ".dockerignore").read_text().split()
    assert {".git", ".venv", "data", "**/secrets", "**/tls"} <= set(ignored)
    lines = (CONTAINERS / "Containerfile").read_text().splitlines()
    assert [line for line in lines if line.startswith("USER")] == ["USER nniweb"]
    for line in lines:
        if line.startswith("COPY") and "--from" not in line:
            *sources, _ = line.split()[1:]
            assert all((ROOT / source).exists() for source in sources), line


# --- one machine -------------------------------------------------------------------------------


def options(unit: str) -> dict[str, str]:
    lines = (ONE_MACHINE / unit).read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))


@pytest.mark.parametrize("unit", ["nniweb.service", "nniweb-worker.service"])
def test_a_restart_of_the_service_leaves_trials_alone(unit: str) -> None:
    service = options(unit)
    assert service["KillMode"] == "process"
    assert service["OOMPolicy"] == "continue"
    breaks_trials = {"PrivateTmp", "PrivateDevices", "ProtectHome", "MemoryDenyWriteExecute", "RestrictNamespaces"}
    assert not breaks_trials & service.keys()
    assert service["ProtectSystem"] == "full"


def test_the_units_for_several_hosts_start_what_the_containers_start() -> None:
    for unit, service in (("nniweb-web@.service", "nniweb-web"), ("nniweb-worker.service", "nniweb-worker")):
        ours = options(unit)["ExecStart"].split()[1:]
        theirs = compose()["services"][service]["command"][1:]
        assert [word for word in ours if word not in ("127.0.0.1", "%i")] \
            == [word for word in theirs if word not in ("0.0.0.0", "8080")]


#: The programs that such a command calls; sudo writes its arguments into a log, as the real one does.
STAND_INS = {
    "sudo": 'echo "$*" >> sudo.log; [ "$1" != -u ] || shift 2; exec "$@"',
    "setpriv": 'while [ "${1#--}" != "$1" ]; do shift; done; exec "$@"',
    ".venv/bin/python": 'echo "$NNIWEB_SECRET_KEY $NNIWEB_DATA $HOME: $*"',
}


def test_commands_with_the_settings_of_the_service_show_no_secret_to_other_users(tmp_path: Path) -> None:
    commands = re.findall(r"sudo [^`\n]*-m nniweb \w+(?: FILE --force)?'?", (ONE_MACHINE / "README.md").read_text())
    assert [re.findall(r"-m nniweb (\w+)", command) for command in commands] == [["restore"], ["migrate"]]
    (tmp_path / "nniweb.env").write_text(
        f"{(ONE_MACHINE / 'nniweb.env').read_text()}\n\nNNIWEB_SECRET_KEY=do-not&tell$\n")
    for name, does in STAND_INS.items():
        program = tmp_path / name
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(f"#!/bin/sh\n{does}\n")
        program.chmod(0o755)
    for command in commands:
        typed = command.replace("/etc/nniweb/", "").replace("\\|", "|")
        said = subprocess.run(["sh", "-ec", typed], cwd=tmp_path, capture_output=True, text=True, check=True,
                              env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, timeout=60).stdout
        assert "do-not" not in (tmp_path / "sudo.log").read_text()
        assert said.startswith("do-not&tell$ /var/lib/nniweb /var/lib/nniweb: -m nniweb "), typed


def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("no systemd-analyze was found: apt-get install systemd")
    for name in ("nniweb.service", "nniweb-worker.service", "nniweb-web@.service", "nniweb-backup.service",
                 "nniweb-backup.timer"):
        # what it runs must be there; the rest is as it is written
        text = (ONE_MACHINE / name).read_text().replace("/opt/nniweb/.venv/bin/python", sys.executable)
        (tmp_path / name).write_text(text)
    units = sorted(str(path).replace("@.", "@8081.") for path in tmp_path.iterdir())
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", *units],
                          capture_output=True, text=True, check=False)
    ours = [line for line in (done.stdout + done.stderr).splitlines() if "nniweb" in line]
    assert (done.returncode, ours) == (0, [])
    (tmp_path / "nniweb.service").write_text((tmp_path / "nniweb.service").read_text().replace("KillMode", "KilMode"))
    wrong = subprocess.run(["systemd-analyze", "verify", "--man=no", str(tmp_path / "nniweb.service")],
                           capture_output=True, text=True, check=False)
    assert "KilMode" in wrong.stderr + wrong.stdout, "it would have said so"


@pytest.mark.parametrize("site", [ONE_MACHINE / "nniweb.nginx.conf", CONTAINERS / "nginx.conf"])
def test_nginx_accepts_the_sites(site: Path, tmp_path: Path) -> None:
    nginx = shutil.which("nginx", path="/usr/sbin:/usr/local/sbin:/usr/bin")
    if nginx is None:
        pytest.skip("no nginx was found: apt-get install nginx-light")
    make_certificate(tmp_path)
    text = re.sub(r"(ssl_certificate_key) .*;", rf"\1 {tmp_path}/key.pem;", site.read_text())
    text = re.sub(r"(ssl_certificate) .*;", rf"\1 {tmp_path}/authority.pem;", text)
    text = text.replace("nniweb-web:8080", "127.0.0.1:8080")  # a name that only containers know
    (tmp_path / "nniweb-proxy.conf").write_text((DEPLOY / "nginx" / "nniweb-proxy.conf").read_text())
    (tmp_path / "nginx.conf").write_text(
        f"pid {tmp_path}/pid;\nerror_log stderr;\nevents {{}}\nhttp {{\n{text}\n}}\n")
    done = subprocess.run([nginx, "-t", "-p", str(tmp_path), "-c", str(tmp_path / "nginx.conf")], capture_output=True,
                          text=True, check=False)
    assert "test is successful" in done.stderr, done.stderr
