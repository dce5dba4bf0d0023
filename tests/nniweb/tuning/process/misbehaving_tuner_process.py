"""The tuner process with algorithms that do what algorithms should not. Run as a program."""

import contextlib
import os
import signal
import sys
import time
from typing import Any

from nniweb.tuning import algorithms
from nniweb.tuning.class_args import ClassArgs, RandomArgs
from nniweb.tuning.process.reply_size import MOST_REPLY
from nniweb.tuning.process.tuner_process import main
from nniweb.tuning.search_space.space import Parameters
from nniweb.tuning.tuners.random_search import RandomSearch


class Misbehaving(RandomSearch):
    """``how`` in the search space says what happens at the third proposal."""

    def propose(self, number: int) -> Parameters:
        point = super().propose(number)
        if number < 2:
            return point
        how = point["how"]
        if how == "raise":
            raise RuntimeError("no idea what to try")
        if how == "exit":
            sys.exit(3)
        if how == "no json":
            return {"how": object()}
        if how == "die":
            os.write(2, b"about to die\n")
            os.kill(os.getpid(), signal.SIGKILL)
        if how == "large":
            return {"how": "x" * MOST_REPLY}
        if how == "large together":
            return {"how": "x" * (MOST_REPLY // 9)}
        if how == "raise at length":
            raise RuntimeError("x" * (MOST_REPLY + 1))
        if how == "write without end":
            while True:
                os.write(1, b"x" * 1_000_000)
        if how == "write into the wire":
            for descriptor in range(3, 20):
                with contextlib.suppress(OSError):
                    for _ in range(MOST_REPLY // 1_000_000 + 1):
                        os.write(descriptor, b"x" * 1_000_000)
        if how == "hang":
            time.sleep(3600)
        if how == "print":
            sys.stdout.write("{ garbage on stdout\n")
            os.write(1, b"more garbage\n")
            assert sys.stdin.read() == ""
        return point


def build(space: Any, seed: int, optimize_mode: str, args: ClassArgs) -> Misbehaving:
    return Misbehaving(space, seed)


if __name__ == "__main__":
    sys.modules["misbehaving"] = sys.modules["__main__"]
    algorithms.TUNERS += (algorithms.Algorithm("Misbehaving", "misbehaving", RandomArgs, None),)
    main()
