"""A server may have more connections open than a shell allows it at first."""

import subprocess
import sys

import pytest

PROGRAM = """
import resource
from nniweb.process.descriptors import raise_limit
resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}))
print(raise_limit(), *resource.getrlimit(resource.RLIMIT_NOFILE))
"""


@pytest.mark.parametrize(("soft", "hard", "now"), [(256, 4096, 4096), (1024, 1024, 1024)])
def test_the_limit_on_open_files_is_raised_as_far_as_the_system_allows(soft: int, hard: int, now: int) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM.format(soft=soft, hard=hard)], capture_output=True, text=True,
                          check=True)
    assert done.stdout.split() == [str(now), str(now), str(hard)]
