"""What is sent of an experiment's file and its code."""

import email.parser
import email.policy
import io
import tarfile
from pathlib import Path

import pytest

from nniweb.client import ClientError
from nniweb.client.code_upload import FormBody, prepare
from nniweb.experiments.launch.uploaded_code import unpack


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    (folder / "src").mkdir(parents=True)
    for name in ("train.py", "src/model.py", "space.json", "data.bin"):
        (folder / name).write_text(name)
    (folder / ".nniignore").write_text("*.bin\n")
    return folder


def names(text: str, base: Path, code: Path | None = None) -> tuple[str, list[str]]:
    """The text that is sent, and the files of the archive, which the server's own reader takes."""
    prepared = prepare(text, base, code)
    packed = io.BytesIO()
    prepared.write(packed)
    packed.seek(0)
    with tarfile.open(fileobj=packed) as archive:
        held = sorted(member.name for member in archive if member.isreg())
    packed.seek(0)
    target = base.parent / "unpacked"
    target.mkdir()
    unpack(packed, target)
    return prepared.config, held


def test_the_files_own_folder_is_sent_less_what_nniignore_names_and_the_text_stays(folder: Path) -> None:
    text = "# mine\ntrialCommand: python3 train.py   # so\nsearchSpaceFile: ./space.json\ntrialCodeDirectory: .\n"
    sent, held = names(text.replace("./space", "space"), folder)
    assert sent == text.replace("./space", "space")
    assert held == [".nniignore", "space.json", "src/model.py", "train.py"]


def test_a_folder_elsewhere_becomes_the_top_and_the_search_space_comes_along(folder: Path) -> None:
    text = "trialCodeDirectory: src  # the code\nsearchSpaceFile: 'space.json'\ntrialConcurrency: 1\n"
    sent, held = names(text, folder)
    assert sent == 'trialCodeDirectory: "."  # the code\nsearchSpaceFile: \'space.json\'\ntrialConcurrency: 1\n'
    assert held == ["model.py", "space.json"]


def test_absolute_paths_of_this_machine_are_turned_into_those_of_the_archive(folder: Path) -> None:
    text = f"searchSpaceFile: {folder}/space.json\ntrialCodeDirectory: {folder}/src\n"
    sent, held = names(text, folder / "src")
    assert sent == 'searchSpaceFile: "space.json"\ntrialCodeDirectory: "."\n'
    assert held == ["model.py", "space.json"]


@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_a_file_in_json_with_tabs_brings_its_code_too(folder: Path, mark: str) -> None:
    text = mark + '{\n\t"trialCodeDirectory": "src",\n\t"description": "a\\tb",\t"searchSpaceFile":\t"space.json"\n}'
    sent, held = names(text, folder)
    assert sent == text.replace('"src"', '"."')
    assert held == ["model.py", "space.json"]


def test_the_old_form_is_understood_too(folder: Path) -> None:
    sent, held = names("searchSpacePath: space.json\ntrial:\n  codeDir: ./src\n  command: python3 model.py\n", folder)
    assert sent == 'searchSpacePath: space.json\ntrial:\n  codeDir: "."\n  command: python3 model.py\n'
    assert held == ["model.py", "space.json"]


def test_a_folder_that_the_platforms_section_names_too_becomes_the_top_in_both_places(folder: Path) -> None:
    """NNI's Python module writes it so."""
    text = f'{{"trialCodeDirectory": "{folder}/src", "trainingService": {{"trialCodeDirectory": "{folder}/src"}}}}'
    assert names(text, folder) == ('{"trialCodeDirectory": ".", "trainingService": {"trialCodeDirectory": "."}}',
                                   ["model.py"])


def test_a_folder_that_only_the_platforms_section_names_is_the_one_that_is_sent(folder: Path) -> None:
    text = "trainingService: {platform: local, trialCodeDirectory: src}\n"
    assert names(text, folder) == ('trainingService: {platform: local, trialCodeDirectory: "."}\n', ["model.py"])


def test_fields_are_known_in_each_spelling_that_the_server_knows(folder: Path) -> None:
    text = "trial_code_directory: src\nsearch_space_file: space.json\n"
    assert names(text, folder) == ('trial_code_directory: "."\nsearch_space_file: space.json\n',
                                   ["model.py", "space.json"])


@pytest.mark.parametrize("text", [
    "trainingServicePlatform: adl\nsearchSpacePath: space.json\ntrial:\n  codeDir: /code/of/the/image\n",
    "searchSpaceFile: space.json\ntrainingService:\n  platform: adl\n  codeDirectoryInImage: /code/of/the/image\n"])
def test_code_of_the_image_is_not_sent(folder: Path, text: str) -> None:
    assert names(text, folder) == (text, ["space.json"])


def test_a_search_space_that_nniignore_names_is_sent_all_the_same(folder: Path) -> None:
    (folder / ".nniignore").write_text("*.json\n*.bin\n")
    sent, held = names("searchSpaceFile: space.json\n", folder)
    assert sent == "searchSpaceFile: space.json\n"
    assert "space.json" in held


def test_another_file_of_that_name_in_the_code_stays_what_it_is(folder: Path) -> None:
    (folder / "src" / "space.json").write_text("another one")
    sent, held = names("searchSpaceFile: space.json\ntrialCodeDirectory: src\n", folder)
    assert sent == 'searchSpaceFile: "of-search-space-space.json"\ntrialCodeDirectory: "."\n'
    assert held == ["model.py", "of-search-space-space.json", "space.json"]
    assert (folder.parent / "unpacked" / "space.json").read_text() == "another one"


def test_links_arrive_as_the_files_they_lead_to(folder: Path) -> None:
    (folder / "src" / "also.py").symlink_to("model.py")
    (folder / "linked").symlink_to("src")
    _, held = names("trialCommand: x\n", folder)
    assert {"linked/model.py", "linked/also.py", "src/also.py"} <= set(held)
    assert (folder.parent / "unpacked" / "linked" / "also.py").read_text() == "src/model.py"


def test_a_text_that_is_no_yaml_is_sent_alone_for_the_server_to_judge(folder: Path) -> None:
    assert prepare("trial: [", folder).entries == []
    assert prepare("trial: [", folder).config == "trial: ["


def test_a_code_folder_that_is_not_there_is_said_before_anything_is_sent(folder: Path) -> None:
    with pytest.raises(ClientError, match="does not exist"):
        prepare("trialCodeDirectory: nowhere\n", folder)


def test_the_form_says_its_size_and_how_much_of_it_was_read() -> None:
    seen: list[tuple[int, int]] = []
    content = bytes(range(256)) * 4000
    body = FormBody({"config": "trialCommand: é\n", "cluster": "x"}, io.BytesIO(content),
                    lambda sent, total: seen.append((sent, total)))
    pieces = []
    while piece := body.read(16384):
        pieces.append(piece)
    sent = b"".join(pieces)
    assert len(sent) == len(body)
    assert seen[-1] == (len(sent), len(sent))
    assert max(map(len, pieces)) <= 16384
    message = email.parser.BytesParser(policy=email.policy.HTTP).parsebytes(
        f"Content-Type: {body.content_type}\r\n\r\n".encode() + sent)
    parts = {part.get_param("name", header="content-disposition"): part.get_payload(decode=True)
             for part in message.iter_parts()}
    assert parts == {"config": "trialCommand: é\n".encode(), "cluster": b"x", "code": content}


ROLES = """trialCommand: python3 train.py
searchSpaceFile: space.json
trainingService:
  platform: kubeflow
  worker: {codeDirectory: src, replicas: 1}   # learns
  ps: {codeDirectory: PS, replicas: 1}
"""


def test_folders_of_roles_are_sent_below_a_name_of_their_own(folder: Path) -> None:
    other = folder.parent / "elsewhere"
    other.mkdir()
    (other / "serve.py").write_text("serve")
    (other / "data.bin").write_text("0")
    (other / ".nniignore").write_text("*.bin\n")
    sent, held = names(ROLES.replace("PS", "../elsewhere"), folder)
    assert sent == ROLES.replace("src,", '"worker",').replace("PS", '"ps"')
    assert held == ["ps/.nniignore", "ps/serve.py", "space.json", "worker/model.py"]


def test_a_role_without_a_folder_brings_the_general_one_along(folder: Path) -> None:
    text = ROLES.replace("codeDirectory: PS, ", "") + "trialCodeDirectory: other\n"
    (folder / "other").mkdir()
    (folder / "other" / "serve.py").write_text("serve")
    sent, held = names(text, folder)
    assert sent == text.replace("src,", '"worker",').replace("trialCodeDirectory: other", 'trialCodeDirectory: "code"')
    assert held == ["code/serve.py", "space.json", "worker/model.py"]


def test_task_roles_that_share_a_folder_send_it_once(folder: Path) -> None:
    (folder / "other").mkdir()
    (folder / "other" / "serve.py").write_text("serve")
    text = ("trialCodeDirectory: .\nsearchSpaceFile: space.json\ntrialOptions:\n  taskRoles:\n"
            "  - {name: ps, codeDirectory: other}\n  - {name: worker, codeDirectory: ./src}\n"
            "  - {name: chief, codeDirectory: ./other/}\n")
    sent, held = names(text, folder)
    assert sent == text.replace("codeDirectory: other", 'codeDirectory: "ps"').replace(
        "./src", '"worker"').replace("./other/", '"ps"')
    assert held == ["ps/serve.py", "space.json", "worker/model.py"]


@pytest.mark.parametrize(("written", "sent"), [("src", '"."'), ("./src", '"."'), (".", ".")])
def test_the_one_folder_of_all_roles_becomes_the_top(folder: Path, written: str, sent: str) -> None:
    text = ROLES.replace("codeDirectory: src", f"codeDirectory: {written}").replace("PS", written)
    config, held = names(text, folder)
    assert config == ROLES.replace("codeDirectory: src", f"codeDirectory: {sent}").replace("PS", sent)
    assert held == (["model.py", "space.json"] if written != "." else
                    [".nniignore", "space.json", "src/model.py", "train.py"])


def test_folders_of_roles_that_have_too_much_together_are_refused_before_anything_is_sent(
        folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "other").mkdir()
    (folder / "other" / "serve.py").write_text("serve")
    monkeypatch.setattr("trainingservice.code.code_archive.MAX_FILES", 1)
    with pytest.raises(ClientError, match="together"):
        prepare(ROLES.replace("PS", "other"), folder)
