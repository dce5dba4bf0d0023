"""Readings of AMD's GPUs, from ``amd-smi`` (ROCm 6 and later) or ``rocm-smi``, both asked in JSON.

Their numbers are those by which HIP_VISIBLE_DEVICES names GPUs, unless the machine's driver numbers them otherwise:
then ``amd-smi list -e`` says how.
"""

import json
import re
from typing import Any, Dict, List, Optional, Set

from trialkeeper.smi_program import Answer, NoGpuReading, ask
from trialkeeper.whole_number import whole_number

AMD_SMI, ROCM_SMI = "amd-smi", "rocm-smi"
_UNITS = {"": 1, "B": 1, "KB": 1024, "MB": 1024 ** 2, "GB": 1024 ** 3}
#: An idle card has some hundred MB in use. ``rocm-smi`` does not say on which card a process is.
_IDLE_BYTES = 1024 ** 3
_CARD = re.compile(r"card(\d+)")


def read_by_amd_smi(until: float, count_processes: bool = True) -> List[Dict[str, Any]]:
    """As ``gpu_usage.read_gpus``."""
    gpus: Dict[int, Dict[str, Any]] = {}
    for entry in _entries(ask([AMD_SMI, "metric", "--usage", "--mem-usage", "--ecc", "--json"], until), AMD_SMI):
        memory, errors = entry.get("mem_usage") or {}, entry.get("ecc") or {}
        number = whole_number(str(entry.get("gpu")))
        if number is None:
            raise NoGpuReading("%s printed JSON of a form that is not understood" % AMD_SMI)
        gpus[number] = {"index": number, "name": "AMD GPU",
                        "utilization": _value((entry.get("usage") or {}).get("gfx_activity")),
                        "memory_used": _value(memory.get("used_vram")),
                        "memory_total": _value(memory.get("total_vram")), "processes": 0}
        uncorrected = _value(errors.get("total_uncorrectable_count"))
        if uncorrected:
            gpus[number]["memory_errors"] = uncorrected
    if not gpus:
        raise NoGpuReading("%s lists no GPU" % AMD_SMI)
    _name_and_number(gpus, until)
    if count_processes:
        for entry in _entries(ask([AMD_SMI, "process", "--json"], until), AMD_SMI):
            gpu = gpus.get(whole_number(str(entry.get("gpu"))) or 0)
            for one in entry.get("process_list") or []:
                process = one.get("process_info") if isinstance(one, dict) else None
                if gpu is not None and isinstance(process, dict):  # else: no running processes
                    gpu["processes"] += 1
                    _add_memory(gpu, process)
    return sorted(gpus.values(), key=lambda gpu: int(gpu["index"]))


def _add_memory(gpu: Dict[str, Any], process: Dict[str, Any]) -> None:
    """Of a process on one GPU. One on several is listed with all that it has at each of them."""
    number = whole_number(str(process.get("pid")))
    used = _value((process.get("memory_usage") or {}).get("vram_mem") or process.get("mem_usage"))
    if number is not None and used is not None:
        gpu.setdefault("memory_of", {})[number] = used


def _name_and_number(gpus: Dict[int, Dict[str, Any]], until: float) -> None:
    """Names, and the numbers of HIP, where they can be had."""
    try:
        for entry in _entries(ask([AMD_SMI, "static", "--asic", "--json"], until), AMD_SMI):
            gpu = gpus.get(_gpu_of(entry))
            if gpu is not None:
                gpu["name"] = str((entry.get("asic") or {}).get("market_name") or gpu["name"])
        numbers = {_gpu_of(entry): entry.get("hip_id")
                   for entry in _entries(ask([AMD_SMI, "list", "-e", "--json"], until), AMD_SMI)}
    except NoGpuReading:  # older versions know neither
        return
    known = {number for number in numbers.values() if isinstance(number, int)}
    if set(numbers) == set(gpus) and len(known) == len(gpus):
        for number, gpu in gpus.items():
            gpu["index"] = numbers[number]


def _gpu_of(entry: Dict[str, Any]) -> int:
    number = whole_number(str(entry.get("gpu")))
    return -1 if number is None else number


def read_by_rocm_smi(until: float, count_processes: bool = True) -> List[Dict[str, Any]]:
    """As ``gpu_usage.read_gpus``."""
    cards = _cards(ask([ROCM_SMI, "--showuse", "--showmeminfo", "vram", "--showproductname", "--json"], until))
    gpus: List[Dict[str, Any]] = []
    for name, card in cards.items():
        match = _CARD.fullmatch(name)
        if match is not None and isinstance(card, dict):
            card = {key.lower(): value for key, value in card.items()}  # their case differs between versions
            gpus.append({"index": int(match.group(1)), "name": str(card.get("card series") or "AMD GPU"),
                         "utilization": _value(card.get("gpu use (%)")),
                         "memory_used": _value(card.get("vram total used memory (b)")),
                         "memory_total": _value(card.get("vram total memory (b)")), "processes": 0})
    if not gpus:
        raise NoGpuReading("%s lists no GPU" % ROCM_SMI)
    if count_processes:
        processes = _processes_with_memory(_cards(ask([ROCM_SMI, "--showpids", "--json"], until)))
        for gpu in gpus:
            gpu["processes"] = len(processes) if len(gpus) == 1 or (gpu["memory_used"] or 0) > _IDLE_BYTES else 0
    return sorted(gpus, key=lambda gpu: int(gpu["index"]))


def _processes_with_memory(cards: Dict[str, Any]) -> Set[str]:
    """``"PID710898": "name, number of GPUs, bytes of VRAM, ..."``: names may have commas."""
    found = set()
    for name, told in (cards.get("system") or {}).items():
        if name.startswith("PID"):
            values = str(told).split(",")
            if len(values) >= 5 and (whole_number(values[-3].strip()) or 0) > 0:
                found.add(name)
    return found


def _cards(answer: Answer) -> Dict[str, Any]:
    document = _document(answer, ROCM_SMI)
    if not isinstance(document, dict):
        raise NoGpuReading("%s printed JSON of a form that is not understood" % ROCM_SMI)
    return document


def _entries(answer: Answer, program: str) -> List[Dict[str, Any]]:
    """One for each GPU: a list, or since ROCm 7 an object around it."""
    document = _document(answer, program)
    if isinstance(document, dict):
        document = document.get("gpu_data")
    if not isinstance(document, list):
        raise NoGpuReading("%s printed JSON of a form that is not understood" % program)
    return [entry for entry in document if isinstance(entry, dict)]


def _document(answer: Answer, program: str) -> Any:
    if answer.exit_code:
        raise NoGpuReading("%s failed with exit code %d: %s" % (program, answer.exit_code, answer.why))
    begins = min((at for at in (answer.text.find("{"), answer.text.find("[")) if at >= 0), default=0)
    try:  # warnings come before it
        return json.loads(answer.text[begins:])
    except ValueError:
        raise NoGpuReading("%s printed no JSON: %s" % (program, answer.text.strip()[:200] or "nothing")) from None


def _value(told: Any) -> Optional[int]:
    """A number, a text, or ``{"value", "unit"}``; None for "N/A" and what else is none."""
    unit = ""
    if isinstance(told, dict):
        told, unit = told.get("value"), str(told.get("unit") or "")
    try:
        return int(float(told) * _UNITS.get(unit.upper(), 1))
    except (TypeError, ValueError):
        return None


