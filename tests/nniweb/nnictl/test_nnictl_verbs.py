"""The verbs and options of ``nniweb nnictl``: those of NNI, and a sentence for what is not here."""

import io
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from nniweb.nnictl.arguments import make_parser
from nniweb.nnictl.program import main
from nniweb.nnictl.refused import REFUSED
from tests.test_migration_page import VERBS

#: Command lines as NNI's documentation has them.
AS_IN_NNI = [
    "create --config config.yml --port 8088 --debug", "create -c config.yml -p 8088 -d -f", "resume abc --port 8088 -f",
    "resume abc -e /old", "view abc --port 8088", "stop", "stop abc", "stop --port 8080", "stop --all", "stop abc*",
    "update searchspace abc --filename space.json", "update searchspace -f space.json",
    "update concurrency abc --value 3", "update duration abc -v 2h", "update trialnum --value 9", "trial ls abc",
    "trial ls abc --head 3", "trial ls --tail 3", "trial kill abc --trial_id xyz", "trial kill -T xyz",
    "experiment show", "experiment status abc", "experiment list", "experiment list --all", "experiment delete abc",
    "experiment delete --all", "experiment import abc --filename data.json", "experiment import -f data.json",
    "experiment export abc --filename out.json --type json --intermediate", "experiment export -f out.csv -t csv",
    "experiment save abc --path /tmp --saveCodeDir", "experiment load --path a.zip --codeDir code -l logs",
    "platform clean --config config.yml", "webui url abc", "config show abc", "log stdout abc --tail 3",
    "log stdout --head 3", "log stderr abc --path", "log trial abc --trial_id xyz", "algo register --meta_path m.yml",
    "algo reg -m m.yml", "algo unregister name", "algo show name", "algo list", "trainingservice register --package p",
    "trainingservice list", "package install --name x", "top", "top --time 5", "tensorboard start abc --trial_id a,b",
    "tensorboard stop abc", "ss_gen --trial_command x", "jupyter-extension install", "hello"]


@pytest.mark.parametrize("written", AS_IN_NNI)
def test_a_command_line_of_nni_is_understood(written: str) -> None:
    assert callable(make_parser().parse_args(written.split()).call)


def test_every_verb_of_nni_is_there_with_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    words = [f"{verb} {each}".strip() for verb, inner in VERBS.items() if verb != "--version" for each in inner or [""]]
    for written in set(words) - set(REFUSED):
        with pytest.raises(SystemExit) as end:
            make_parser().parse_args([*written.split(), "--help"])
        assert end.value.code == 0, written
        assert capsys.readouterr().out.startswith(f"usage: nnictl {written} ")


@pytest.mark.parametrize("verb", sorted(REFUSED))
def test_what_is_not_here_is_refused_with_a_sentence_whatever_options_it_gets(verb: str) -> None:
    out, err = io.StringIO(), io.StringIO()
    assert main([*verb.split(), "--some", "-option", "x"], out=out, err=err) == 1
    assert err.getvalue().strip() == REFUSED[verb]
    assert out.getvalue() == ""


def test_the_program_has_the_command_and_platform_clean_says_why_it_does_nothing() -> None:
    done = subprocess.run([sys.executable, "-m", "nniweb", "nnictl", "platform", "clean", "-c", "config.yml"],
                          cwd=Path(__file__).resolve().parents[3], text=True, capture_output=True, timeout=60,
                          check=False)
    assert done.returncode == 0
    assert done.stdout.startswith("Nothing was cleaned: what an experiment leaves on its platform is removed when the")


@pytest.mark.parametrize(("written", "words"), [
    ("create -c config.yml -u some/where", "--url_prefix has no meaning here"),
    ("resume abc -e /old/folder", "import_nni FOLDER, with --continue to go on"),
    ("stop --port 8080", "--port: one port has all experiments"),
    ("stop abc --all", "Give the id of an experiment or --all, not both"),
    ("experiment delete", "Give the id of the experiment, or --all"),
    ("experiment delete abc --all", "Give the id of an experiment or --all, not both"),
    ("update trialnum abc --value many", "--value must be a whole number, not many"),
    ("update searchspace abc -f nowhere.json", "nowhere.json cannot be read: No such file or directory"),
    ("experiment import abc -f {broken}", "is not JSON"),
    ("log stdout abc --path", "the log is in the server's database"),
    ("experiment save", "Give the id of the experiment"),
    ("experiment save abc -s", "--saveCodeDir: the server does not give out code"),
    ("experiment load -p a.zip -c .", "Packages are loaded on the server's own machine"),
    ("top --time 0", "--time must be at least 1 second"),
])
def test_what_cannot_be_done_is_said_before_a_server_is_asked(written: str, words: str, tmp_path: Path,
                                                              monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NNIWEB_SERVER", "http://127.0.0.1:1")
    monkeypatch.setenv("NNIWEB_TOKEN", "nniweb_none")
    (tmp_path / "broken.json").write_text(json.dumps([1])[:-1])
    err = io.StringIO()
    assert main(written.format(broken=tmp_path / "broken.json").split(), out=io.StringIO(), err=err) == 1
    assert words in err.getvalue()


def test_a_damaged_package_is_refused_with_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NNIWEB_SERVER", raising=False)
    package = tmp_path / "damaged.zip"
    with zipfile.ZipFile(package, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("experiment/db/nni.sqlite", "words " * 1000)
    content = bytearray(package.read_bytes())
    content[54:70] = b"\xff" * 16  # after the header of the file
    package.write_bytes(content)
    err = io.StringIO()
    assert main(["experiment", "load", "-p", str(package), "-c", str(tmp_path)], out=io.StringIO(), err=err) == 1
    assert "damaged.zip cannot be read as a zip" in err.getvalue()
