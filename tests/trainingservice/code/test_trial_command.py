"""Which Python and which script the text of a command names."""

import pytest

from trainingservice.code.trial_command import PythonCall, called_file, called_program, python_call


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


@pytest.mark.parametrize(("command", "file"), [
    ("python3 -u train.py --lr 0.1", "train.py"), ("cd src && bash -x ./run.sh 1", "src/run.sh"),
    ("mkdir -p out; ./bin/train", "bin/train"), ("CUDA_VISIBLE_DEVICES=0 sh run.sh", "run.sh"),
    ("make && ./train", ""), ("bash -c 'python3 train.py'", ""), ("python3 -m my.train", ""), ("train --fast", ""),
    ("bash < run.sh", ""), ("python3 /opt/train.py", ""), ("cd /opt && python3 train.py", ""), ("./$NAME", ""),
    ("if true; then python3 a.py; fi", ""), ("echo 'x", ""),
])
def test_the_file_that_a_command_runs(command, file):
    assert called_file(command) == file


@pytest.mark.parametrize(("command", "program"), [
    ("train --fast", "train"), ("mkdir -p out && julia train.jl", "julia"), ("python3 train.py", ""), ("./train", ""),
    ("test -f x && train", ""), ("source env.sh; train", ""), ("PATH=/opt train", ""), ("exit 3", ""),
    ("conda run train", ""), ("$TRAIN", ""), ("for i in 1 2; do train; done", ""),
])
def test_the_program_that_a_command_looks_for(command, program):
    assert called_program(command) == program
