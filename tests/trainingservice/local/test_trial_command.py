"""Which Python and which script the text of a command names."""

import pytest

from trainingservice.local.trial_command import PythonCall, python_call


@pytest.mark.parametrize(("command", "call"), [
    ("python3 train.py --lr 0.1", PythonCall("python3", "", "train.py")),
    ("python train.py", PythonCall("python", "", "train.py")),
    ("/opt/py/bin/python3.9 -u -W ignore train.py > log 2>&1", PythonCall("/opt/py/bin/python3.9", "", "train.py")),
    ("CUDA_LAUNCH_BLOCKING=1 exec python3 'my train.py' | tee log", PythonCall("python3", "", "my train.py")),
    ("cd src && cd ./deep; python3 ../train.py", PythonCall("python3", "src/deep", "../train.py")),
    ("mkdir -p out\npython3 -m my.train", PythonCall("python3", "", "", "my.train")),
    ("python3 -c 'import torch'", PythonCall("python3")),
    ("python3 $SCRIPT", PythonCall("python3")),
    ("python3 < train.py", PythonCall("python3")),
    ("pip install torch && python3 train.py", PythonCall("python3")),  # what it lacks may be there then
    ("bash run.sh", None),
    ("cd . && python3 train.py", PythonCall("python3", "", "train.py")),
    ("cd $WHERE && python3 train.py", None),
    ("source venv/bin/activate && python3 train.py", None),
    ("conda activate torch; python train.py", None),
    ("PATH=/opt/bin:$PATH python3 train.py", None),
    ("export PATH=/opt/bin:$PATH; python3 train.py", None),
    ("~/venv/bin/python train.py", None),
    ("python3 'train.py", None),
    ("echo " + "a" * 30_000, None),
])
def test_what_a_command_calls(command, call):
    assert python_call(command) == call
