"""``export PYTHONPATH=$(python -m nniweb.nni_experiment)``: the same as the import, for unchanged programs."""

import sys

from nniweb.nni_experiment import FOLDER

if __name__ == "__main__":
    sys.stdout.write(f"{FOLDER}\n")
