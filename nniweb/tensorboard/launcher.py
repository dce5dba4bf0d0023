"""The program that becomes TensorBoard: ``python launcher.py PARENT``, with its options as JSON on the input.

They stay off the command line, which other users of the machine can read: the prefix of the path is what keeps them
out of the port. The process ends with the one that started it, also where that one is killed. Plugins that read files
which a run names (projector, debugger) are left out, and so are those of other packages: what is shown was written by
trials.
"""

import ctypes
import json
import os
import signal
import sys
import threading
import time

_PR_SET_PDEATHSIG = 1
_LEFT_OUT = ("tensorboard.plugins.projector", "tensorboard.plugins.debugger_v2")


def main() -> None:
    """Serve until killed."""
    options = json.load(sys.stdin)
    end_with_parent(int(sys.argv[1]))
    os.umask(0o077)
    os.nice(5)  # the server's own work goes first
    sys.argv = ["tensorboard", "--host", "127.0.0.1", "--port", "0", "--load_fast", "false", "--reload_interval", "5",
                "--reload_multifile", "true", "--logdir", options["logs"], "--path_prefix", options["prefix"],
                "--window_title", options["title"]]
    from absl import app
    from tensorboard import default, main_lib, program

    main_lib.global_init()
    plugins = [plugin for plugin in default.get_static_plugins()
               if not getattr(plugin, "__module__", "").startswith(_LEFT_OUT)]
    board = program.TensorBoard(plugins=plugins)
    app.run(board.main, flags_parser=board.configure)


def end_with_parent(parent: int) -> None:
    """Have the kernel kill this process when its parent ends; where the kernel is not Linux's, look each second."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    else:
        threading.Thread(target=_look_at, args=(parent,), daemon=True).start()
    if os.getppid() != parent:
        sys.exit("the server has ended in the meantime")


def _look_at(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)


if __name__ == "__main__":
    main()
