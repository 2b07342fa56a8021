"""results.py - the file that a bench without a model writes: schema cadenza.compare/1, machine as far as Python knows it."""
import json
import os
import pathlib
import statistics

WANTED = ("avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512_vnni", "avx_vnni", "avx512_bf16", "amx_int8")


def machine():
    text = pathlib.Path("/proc/cpuinfo").read_text() if os.path.exists("/proc/cpuinfo") else ""
    said = dict(reversed([(part.strip() for part in line.split(":", 1)) for line in text.splitlines() if ":" in line]))
    flags = said.get("flags", "").split()
    return {"cpu": said.get("model name", ""), "cores": os.cpu_count(), "has": [f for f in WANTED if f in flags],
            "lacks": [f for f in WANTED if f not in flags], "load_average": os.getloadavg()[0]}


def spread(values):
    return {"median": statistics.median(values), "low": min(values), "high": max(values)}


def write(path, bench, settings, rows, missing):
    """missing: (program, why)."""
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    found = {"schema": "cadenza.compare/1", "bench": bench, "machine": machine(), "settings": settings, "rows": rows,
             "not_measured": [{"program": name, "why": str(why)} for name, why in missing]}
    path.write_text(json.dumps(found, indent=1) + "\n")
    print(f"\nwritten: {path}")
