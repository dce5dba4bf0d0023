#!/usr/bin/env python3
"""A program that answers like nvidia-smi, from a JSON file; and, for tests, the object that writes that file.

As a program it knows ``-L``, ``-q -x`` and the CSV questions ``--query-gpu`` and ``--query-compute-apps``. The
file is named by NVIDIA_SMI_FAKE_FILE:

    {"gpus": [{"name": ..., "utilization": 0-100, "memory_used": MiB, "memory_total": MiB, "processes": [pid, ...],
               "errors": uncorrected ones of its memory, "says": what stands in place of its values, None for nothing,
               "instances": [(GPU instance, profile, MiB), ...] where it is cut (MIG)}],
     "memory_of": {pid: MiB}, "failure": null or [exit code, text], "delay": seconds,
     "held": a folder in which processes say what they have of a GPU: a file for each, with its process id as a name and
             ``index MiB`` in it, which counts while the process lives}

Each call adds a line with its first argument to the file of the same name with ``.calls`` at its end.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

FILE_VARIABLE = "NVIDIA_SMI_FAKE_FILE"
PROCESSES = "--query-compute-apps="


class FakeNvidiaSmi:
    """Puts the program on PATH and says what it answers. Use it with pytest's ``monkeypatch``."""

    def __init__(self, folder: Path, monkeypatch: Any, gpus: int = 2) -> None:
        self.file = folder / "gpus.json"
        self.state: dict[str, Any] = {"gpus": [], "failure": None, "delay": 0}
        for _ in range(gpus):
            self.state["gpus"].append({"name": "Fake H0", "utilization": 0, "memory_used": 10, "memory_total": 16384,
                                       "processes": []})
        programs = folder / "programs"
        programs.mkdir(parents=True)
        program = programs / "nvidia-smi"
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I -S "{Path(__file__).resolve()}" "$@"\n')
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
        monkeypatch.setenv(FILE_VARIABLE, str(self.file))
        self.write()

    def write(self) -> None:
        """Let the program answer by what ``state`` says now."""
        temporary = self.file.with_suffix(".new")
        temporary.write_text(json.dumps(self.state))
        temporary.replace(self.file)

    def set_processes(self, index: int, *pids: int) -> None:
        """Let these processes run on a GPU."""
        self.state["gpus"][index]["processes"] = list(pids)
        self.write()

    def fail(self, code: int = 9, text: str = "NVIDIA-SMI has failed because it could not talk to the driver.") -> None:
        """Let the program fail from now on."""
        self.state["failure"] = [code, text]
        self.write()

    def recover(self) -> None:
        """Let the program answer again."""
        self.state["failure"] = None
        self.write()

    def looks(self) -> int:
        """How often somebody looked at all GPUs and their processes: a service, and keepers of trials with GPUs."""
        try:
            return Path(f"{self.file}.calls").read_text().count(PROCESSES)
        except FileNotFoundError:
            return 0


def uuid(index: int) -> str:
    """A GPU's id, as the driver makes them."""
    return f"GPU-00000000-0000-0000-0000-{index:012d}"


def instance_uuid(index: int, gpu_instance: int) -> str:
    """The id of an instance of a GPU that is cut."""
    return f"MIG-00000000-0000-0000-{gpu_instance:04d}-{index:012d}"


def listing(gpus: list[dict[str, Any]]) -> str:
    """The answer to ``-L``."""
    lines = []
    for index, gpu in enumerate(gpus):
        lines.append(f"GPU {index}: {gpu['name']} (UUID: {uuid(index)})")
        lines += [f"  MIG {profile:<12}Device {device:>2}: (UUID: {instance_uuid(index, instance)})"
                  for device, (instance, profile, _) in enumerate(gpu.get("instances", ()))]
    return "\n".join(lines)


def gpu_field(name: str, index: int, gpu: dict[str, Any]) -> str:
    """One column of ``--query-gpu``."""
    known = {"index": index, "uuid": uuid(index), "name": gpu["name"],
             "utilization.gpu": "[N/A]" if gpu.get("instances") else gpu["utilization"],
             "memory.used": gpu["memory_used"], "memory.total": gpu["memory_total"],
             "ecc.errors.uncorrected.volatile.total": gpu.get("errors", 0), "retired_pages.pending": "No",
             "compute_mode": gpu.get("compute_mode", "Default")}
    if gpu.get("says") and name not in ("index", "uuid", "name"):
        return str(gpu["says"])
    return str(known.get(name, "[N/A]"))


def as_xml(gpus: list[dict[str, Any]]) -> str:
    """The answer to ``-q -x``."""
    parts = ['<?xml version="1.0" ?>', "<nvidia_smi_log>", f"<attached_gpus>{len(gpus)}</attached_gpus>"]
    for index, gpu in enumerate(gpus):
        instances = "".join(
            f"<mig_device><index>{device}</index><gpu_instance_id>{instance}</gpu_instance_id><compute_instance_id>0"
            f"</compute_instance_id><fb_memory_usage><total>{size} MiB</total><used>0 MiB</used></fb_memory_usage>"
            "</mig_device>" for device, (instance, _, size) in enumerate(gpu.get("instances", ())))
        processes = "".join(f"<process_info><pid>{pid}</pid></process_info>" for pid in gpu["processes"])
        parts.append(
            f'<gpu id="00000000:{index:02d}:00.0"><product_name>{gpu["name"]}</product_name><uuid>{uuid(index)}</uuid>'
            f'<minor_number>{index}</minor_number><fb_memory_usage><total>{gpu["memory_total"]} MiB</total>'
            f'<used>{gpu["memory_used"]} MiB</used></fb_memory_usage><utilization><gpu_util>{gpu["utilization"]} %'
            f"</gpu_util><memory_util>0 %</memory_util></utilization><mig_devices>{instances}</mig_devices>"
            f"<processes>{processes}</processes></gpu>")
    return "\n".join([*parts, "</nvidia_smi_log>"])


def main(arguments: list[str]) -> int:
    """Answer one call."""
    path = os.environ[FILE_VARIABLE]
    with open(path + ".calls", "a") as calls:
        calls.write((arguments or [""])[0] + "\n")
    state = json.loads(Path(path).read_text())
    time.sleep(state["delay"])
    if state["failure"]:
        code, text = state["failure"]
        sys.stdout.write(text + "\n")  # the real one says it on stdout, too
        return int(code)
    gpus = state["gpus"]
    for path in Path(state["held"]).iterdir() if state.get("held") else ():
        if Path(f"/proc/{path.name}").exists() and len(words := path.read_text().split()) == 2:
            gpu, size = gpus[int(words[0])], int(words[1])
            gpu["processes"].append(int(path.name))
            gpu["memory_used"] += size
            state.setdefault("memory_of", {})[path.name] = size
    query = (arguments or [""])[0]
    if query == "-L":
        sys.stdout.write(listing(gpus) + "\n")
    elif query in ("-q", "-x") and {"-q", "-x"} <= set(arguments):
        sys.stdout.write(as_xml(gpus) + "\n")
    elif query.startswith("--query-gpu="):
        for index, gpu in enumerate(gpus):
            columns = query.partition("=")[2].split(",")
            sys.stdout.write(", ".join(gpu_field(column, index, gpu) for column in columns) + "\n")
    elif query.startswith("--query-compute-apps="):
        for index, gpu in enumerate(gpus):
            for pid in gpu["processes"]:
                known = {"gpu_uuid": uuid(index), "pid": str(pid),
                         "used_memory": str(state.get("memory_of", {}).get(str(pid), "[N/A]"))}
                columns = query.partition("=")[2].split(",")
                sys.stdout.write(", ".join(known.get(column, "[N/A]") for column in columns) + "\n")
    else:
        sys.stderr.write(f"the fake nvidia-smi does not know {arguments}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
