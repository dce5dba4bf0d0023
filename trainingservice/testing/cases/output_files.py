"""Cases: what a trial wrote into its output folder, seen by a platform that can look there."""

from __future__ import annotations

from contextlib import closing, suppress

from trainingservice.base import TrainingService
from trainingservice.errors import Unsupported
from trainingservice.files.output_folder import NoSuchOutput, OutputFolder
from trainingservice.testing.bench import Bench
from trainingservice.testing.cases.fixtures import ConformanceFixtures

_WRITES = """
cd "$NNI_OUTPUT_DIR" && mkdir -p "deep/er grün" && printf 'first line\\nrest' > "deep/er grün/values.txt" &&
ln -s /etc/passwd link && ln -s /etc folder && mkfifo pipe
"""


class OutputFileCases(ConformanceFixtures):
    def test_what_a_trial_wrote_is_listed_and_read_and_links_are_not_followed(self, bench: Bench,
                                                                              service: TrainingService) -> None:
        if type(service).output_folder is TrainingService.output_folder:
            return  # it cannot look there: the host says so, and points at keepFiles
        form = bench.form(_WRITES)
        service.submit_trial_job(form)
        detail = bench.wait_for_end(service, form)
        another = bench.platform.new_service(bench.context())  # never run, as a page that is opened has it
        try:
            with closing(another.output_folder(detail)) as folder:
                _look_at(folder)
        except Unsupported:
            pass  # with these settings it cannot
        finally:
            another.clean_up()


def _look_at(folder: OutputFolder) -> None:
    found = folder.list_files()
    sizes = {file.name: file.size for file in found.files}
    name = "deep/er grün/values.txt"
    assert sizes[name] == 15
    assert (found.cut, found.left_out) == (False, 3)
    assert not {"link", "folder", "pipe"} & sizes.keys()
    assert folder.read(name, 0)[:2] == (b"first line\nrest", 15)
    assert [folder.read(name, offset, 4).content for offset in (6, 13, 15)] == [b"line", b"st", b""]
    for wrong in ("link", "folder/passwd", "pipe", "../job.json", "/etc/passwd", "deep", "", "nothing"):
        with suppress(NoSuchOutput):
            raise AssertionError(f"{wrong!r} was read: {folder.read(wrong, 0)!r}")
