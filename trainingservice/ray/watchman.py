"""What ends a trial whose job was killed: Ray kills the processes of a job that it knows of, and no others.

When the process that Ray runs a job under dies, Ray kills the job's own process group: shell and keeper. The trial has
a session of its own, so it would go on, with the GPU that Ray gives to the next job.
"""

from __future__ import annotations

#: Variable whose value only the processes of one job have on their node: they inherit it.
JOB_VARIABLE = "NNI_RAY_JOB"

#: Python 3.8, standard library; told the job's shell (pid), the job's name and the folder of its files. It returns at
#: once and leaves a process behind, which waits for the end of the shell, kills what the job left and removes the
#: folder. That process is in a session of its own, so that neither a stop nor a kill of the job reaches it.
WATCH = f"""\
import os, shutil, signal, sys, time
shell, job, folder = int(sys.argv[1]), sys.argv[2], sys.argv[3]
mark = ("{JOB_VARIABLE}=" + job).encode()

def begun(pid):
    try:
        with open("/proc/%d/stat" % pid, "rb") as stat:
            fields = stat.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return None if fields[0] in b"ZX" else fields[19]

def left():
    found = []
    for name in os.listdir("/proc"):
        if name.isascii() and name.isdigit() and int(name) != os.getpid():
            try:
                with open("/proc/%s/environ" % name, "rb") as environ:
                    if mark in environ.read().split(b"\\0"):
                        found.append(int(name))
            except OSError:
                pass
    return found

first = begun(shell)
if os.fork():
    os._exit(0)
os.setsid()
if os.fork():
    os._exit(0)
os.chdir("/")
null = os.open(os.devnull, os.O_RDWR)
for number in (0, 1, 2):
    os.dup2(null, number)
while first is not None and begun(shell) == first:
    time.sleep(0.5)
give_up = time.monotonic() + 60
while time.monotonic() < give_up:
    pids = left()
    if not pids:
        break
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            pass
    time.sleep(0.1)
shutil.rmtree(folder, ignore_errors=True)
"""
