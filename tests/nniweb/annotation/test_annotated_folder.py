"""A code folder with annotations: what is read, what is packed, what is left alone, and the limits."""

import os
import sys
import tarfile
import textwrap
from pathlib import Path

import pytest

from nniweb.annotation import annotated_folder, reading_process
from nniweb.annotation.annotated_folder import pack_annotated, read_annotations
from nniweb.annotation.reading_process import AnnotationsInvalid, FileProblem, rewrite_files
from trainingservice.code.code_archive import CodeRefused, pack_code

TRAIN = '"""@nni.variable(nni.choice(1, 2), name=x)"""\nx = 1\n'
CHOICE = {"_type": "choice", "_value": [1, 2]}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path.resolve() / "code"
    folder.mkdir()
    write(folder, "train.py", TRAIN)
    return folder


def write(folder: Path, name: str, text: str | bytes) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def problems(folder: Path) -> list[str]:
    with pytest.raises(AnnotationsInvalid) as invalid:
        read_annotations(folder)
    return [str(problem) for problem in invalid.value.problems]


def test_parameters_are_called_by_their_modules(folder: Path) -> None:
    write(folder, "models/net.py", TRAIN)
    write(folder, "models/__init__.py", "")
    found = read_annotations(folder)
    assert found.search_space == {"models.net/x/choice": CHOICE, "train/x/choice": CHOICE}
    assert found.places == {"models.net/x/choice": ("models/net.py", 1), "train/x/choice": ("train.py", 1)}


def test_the_archive_has_the_rewritten_files_and_all_others_as_they_are(folder: Path, tmp_path: Path) -> None:
    write(folder, "data/table.csv", "1,2")
    write(folder, "plain.py", "# nothing\r\nx = 1")
    run = write(folder, "run.py", "#!/usr/bin/env python3\n" + TRAIN)
    run.chmod(0o755)
    (folder / "again.py").symlink_to("train.py")
    write(folder, "left_out.py", TRAIN)
    write(folder, ".nniignore", "left_out.py\n")
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    packed, found = pack_annotated(folder, tmp_path / "packed")
    assert set(found.search_space) == {"train/x/choice", "run/x/choice"}
    assert packed.path.name == f"{packed.sha256}.tar.gz"
    with tarfile.open(packed.path) as archive:
        archive.extractall(tmp_path / "copy", filter="data")
    copy = tmp_path / "copy"
    assert sorted(path.relative_to(copy).as_posix() for path in copy.rglob("*")) == [
        ".nniignore", "again.py", "data", "data/table.csv", "plain.py", "run.py", "train.py"]
    assert (copy / "plain.py").read_bytes() == b"# nothing\r\nx = 1"
    assert os.access(copy / "run.py", os.X_OK)
    assert os.readlink(copy / "again.py") == "train.py"
    assert "get_current_parameter" in (copy / "train.py").read_text()
    assert packed.content_bytes == sum(path.stat().st_size for path in copy.rglob("*")
                                       if path.is_file() and not path.is_symlink())
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before, "nobody's files change"
    assert sorted(path.name for path in (tmp_path / "packed").iterdir()) == [packed.path.name], "nothing is left behind"


def test_the_same_code_gives_the_same_archive(folder: Path, tmp_path: Path) -> None:
    first, _ = pack_annotated(folder, tmp_path / "first")
    assert pack_annotated(folder, tmp_path / "second")[0].sha256 == first.sha256
    assert pack_code(folder, tmp_path / "third").sha256 != first.sha256


def test_python_files_without_annotations_may_be_of_any_python(folder: Path) -> None:
    write(folder, "old.py", "print 'running'\n")
    write(folder, "template.py", "{{ name }} = nni_of(@nni)\n")
    write(folder, "binary.py", bytes(range(256)))
    assert set(read_annotations(folder).search_space) == {"train/x/choice"}


def test_each_file_that_is_wrong_is_named_with_its_line(folder: Path) -> None:
    write(folder, "a.py", "x = 1\n" + TRAIN.replace("name=x", "name=y"))
    write(folder, "sub/b.py", "print 'x'\n" + TRAIN)
    found = problems(folder)
    assert found[0].startswith("a.py, line 2: the annotation is for y, but the assignment after it is to x.")
    assert found[1].startswith("sub/b.py, line 1: this is not valid in Python 3.")
    assert len(found) == 2


def test_two_files_of_one_name_must_mean_the_same(folder: Path) -> None:
    write(folder, "models/net.py", TRAIN)
    write(folder, "models.net.py", TRAIN)
    assert set(read_annotations(folder).search_space) == {"models.net/x/choice", "train/x/choice"}
    write(folder, "models.net.py", TRAIN.replace("2", "3"))
    assert "models.net/x/choice is also a parameter of" in problems(folder)[0]


@pytest.mark.parametrize("text", ["x = 1\n", '"""@nni.report_final_result(1)"""\n'])
def test_code_without_a_parameter_is_refused(folder: Path, text: str) -> None:
    write(folder, "train.py", text)
    [problem] = problems(folder)
    assert problem.startswith("no Python file of the code has an annotation that gives a parameter.")


def test_a_folder_that_cannot_be_packed_is_refused_as_without_annotations(folder: Path) -> None:
    (folder / "out.py").symlink_to("/etc/passwd")
    with pytest.raises(CodeRefused, match="points out of the code folder"):
        read_annotations(folder)


def test_a_file_that_is_too_large_is_named_if_it_has_annotations(folder: Path, monkeypatch) -> None:
    monkeypatch.setattr(annotated_folder, "LARGEST_FILE", 1000)
    monkeypatch.setattr(annotated_folder, "_PIECE", 512)
    write(folder, "large.py", "x = 1\n" * 500)
    assert read_annotations(folder).search_space
    write(folder, "large.py", "x = 1\n" * 500 + TRAIN)
    assert [problem.split(" has ")[0] for problem in problems(folder)] == ["large.py:"]


def test_an_annotation_across_two_pieces_of_reading_is_seen(folder: Path, monkeypatch) -> None:
    for size in range(20, 40):
        monkeypatch.setattr(annotated_folder, "_PIECE", size)
        assert read_annotations(folder).search_space


def test_all_files_with_annotations_together_have_a_limit(folder: Path, monkeypatch) -> None:
    monkeypatch.setattr(annotated_folder, "MOST_BYTES", 3 * len(TRAIN))
    write(folder, "b.py", TRAIN)
    write(folder, "c.py", TRAIN)
    assert len(read_annotations(folder).search_space) == 3
    write(folder, "d.py", TRAIN)
    assert "in total" in problems(folder)[0]


def test_what_is_written_has_a_limit(monkeypatch) -> None:
    monkeypatch.setattr(reading_process, "MOST_WRITTEN", 100)
    found = reading_process.answer_to({"a.py": TRAIN.encode()})
    assert "more than" in found["problems"][0][2]


def test_reading_that_takes_too_long_is_ended_and_names_the_file(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setattr(reading_process.sys, "executable", program(tmp_path, "import time; time.sleep(600)"))
    with pytest.raises(AnnotationsInvalid) as invalid:
        rewrite_files({"a.py": b"", "b.py": b""}, patience=3)
    assert invalid.value.problems[0].file == "b.py"
    assert "not read within 3 s" in str(invalid.value)


def test_a_parser_that_dies_takes_nothing_with_it(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setattr(reading_process.sys, "executable", program(tmp_path, "import os; os.abort()"))
    with pytest.raises(AnnotationsInvalid, match=r"^b\.py: the annotations cannot be read: Python's parser gave up"):
        rewrite_files({"a.py": b"", "b.py": b""})


def program(tmp_path: Path, end: str) -> str:
    """Stands for Python: says two files, as the reading does, and then does this."""
    path = tmp_path / "python"
    path.write_text(textwrap.dedent(f"""\
        #!{sys.executable}
        import sys
        for name in ("a.py", "other", "b.py"):
            print('"' + name + '"', file=sys.stderr, flush=True)
        {end}
        """))
    path.chmod(0o755)
    return str(path)


def test_a_file_that_needs_all_memory_or_stack_is_refused_soon() -> None:
    for text in ("nni.choice({1: " + "-" * 500_000 + "1})", "nni.choice({1: " + "[" * 150 + "]" * 150 + "})\n"
                 + "x = " + " + ".join(["1"] * 100_000)):
        with pytest.raises(AnnotationsInvalid) as invalid:
            rewrite_files({"deep.py": text.encode()})
        assert invalid.value.problems[0].file == "deep.py"


def test_nothing_of_the_code_is_run(folder: Path, tmp_path: Path) -> None:
    write(folder, "train.py", f"open({str(tmp_path / 'was_here')!r}, 'w')\n" + TRAIN)
    write(folder, "sitecustomize.py", f"open({str(tmp_path / 'was_here')!r}, 'w')\n")
    assert read_annotations(folder).search_space
    assert not (tmp_path / "was_here").exists()


def test_a_problem_says_its_place_as_far_as_it_has_one() -> None:
    assert [str(FileProblem(*each)) for each in (("a.py", 3, "x."), ("a.py", 0, "x."), ("", 0, "x."))] == [
        "a.py, line 3: x.", "a.py: x.", "x."]
