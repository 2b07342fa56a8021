#!/usr/bin/env python3
"""Makes report.json and report.md of the logs that tools/gpu_checklist.sh left in a folder: report.py FOLDER."""
import csv
import json
import sys
from pathlib import Path

WORDS = {0: "ok", 77: "not run", 124: "out of time", 137: "out of time"}


def read_parts(folder: Path) -> list[dict]:
    parts = []
    for path in sorted(folder.glob("*.status")):
        status, seconds, limit = (int(word) for word in path.read_text().split())
        log = folder / f"{path.stem}.log"
        text = log.read_text(errors="replace") if log.exists() else ""
        parts.append({"part": path.stem, "status": status, "word": WORDS.get(status, "failed"), "seconds": seconds,
                      "limit": limit, "last": text.strip().splitlines()[-1:] or [""], "text": text})
    return parts


def rows_of(parts: list[dict]) -> list[dict]:
    """The lines of all logs that are JSON objects with a "work"."""
    rows = []
    for part in parts:
        for line in part["text"].splitlines():
            if not line.startswith('{"work"'):
                continue
            try:
                rows.append(json.loads(line) | {"part": part["part"]})
            except json.JSONDecodeError:
                print(f"report: {part['part']}.log has a broken line: {line[:80]}", file=sys.stderr)
    return rows


def kernel_times(parts: list[dict]) -> dict[str, dict[str, float]]:
    """Of each shape: microseconds by kernel, from ncu's table."""
    text = next((part["text"] for part in parts if part["part"] == "kernels"), "")
    times: dict[str, dict[str, float]] = {}
    shape, header = "", []
    for line in text.splitlines():
        if line.startswith("== "):
            shape, header = line[3:].split(",")[0], []
        elif line.startswith('"ID"'):
            header = next(csv.reader([line]))
        elif header and line.startswith('"'):
            row = dict(zip(header, next(csv.reader([line]))))
            if row.get("Metric Name") != "gpu__time_duration.sum":
                continue
            unit = {"nsecond": 1e-3, "ns": 1e-3, "usecond": 1.0, "us": 1.0, "msecond": 1e3, "ms": 1e3}.get(row["Metric Unit"], 1e-3)
            name = row["Kernel Name"].split("(")[0]
            of = times.setdefault(shape, {})
            of[name] = of.get(name, 0.0) + float(row["Metric Value"].replace(",", "")) * unit
    return times


def table(head: list[str], rows: list[list]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]) + "\n"


def decode_tables(rows: list[dict]) -> str:
    out = []
    for row in rows:
        if row["work"] == "decode":
            out.append([row["shape"], row["weights"], row["kv"], row["context"], row["batch"], row["tokens_s"], row["step_ms"],
                        row["share"]])
    return table(["shape", "weights", "KV", "context", "batch", "tokens/s", "ms a step", "share of read"], out) if out else ""


def prefill_table(rows: list[dict]) -> str:
    blas = {(row["shape"], row["length"]): row["ms"] for row in rows if row["work"] == "cublas"}
    out = []
    for row in rows:
        if row["work"] == "prefill":
            alone = blas.get((row["shape"], row["length"]))
            out.append([row["shape"], row["weights"], row["length"], row["tokens_s"], row["ms"], row["share_of_products"],
                        f"{alone / row['ms']:.3f}" if alone else ""])
    head = ["shape", "weights", "prompt", "tokens/s", "ms", "share of its products", "share of cuBLAS alone (bf16)"]
    return table(head, out) if out else ""


def markdown(parts: list[dict], rows: list[dict], times: dict) -> str:
    card = next((row for row in rows if row["work"] == "card"), None)
    rates = next((row for row in rows if row["work"] == "bandwidth"), None)
    out = [f"# CUDA on {card['name'] if card else 'this machine'}\n"]
    if card and rates:
        out.append(f"Compute capability {card['capability']}, {card['multiprocessors']} multiprocessors, "
                   f"{card['bytes'] / 2**30:.0f} GiB; a plain copy moves {rates['copy'] / 1e9:.0f} GB/s, a plain read "
                   f"{rates['read'] / 1e9:.0f} GB/s.\n")
    out.append(table(["part", "came out", "seconds", "limit"],
                     [[part["part"], part["word"], part["seconds"], part["limit"]] for part in parts]))
    for title, text in (("Decoding", decode_tables(rows)), ("Prompts", prefill_table(rows))):
        if text:
            out.append(f"## {title}\n\n{text}")
    left = [row for row in rows if row["work"] == "left out"]
    if left:
        out.append("Left out:\n\n" + "\n".join(f"- {row['shape']} {row['weights']}: {row['why']}" for row in left) + "\n")
    for shape, of in times.items():
        top = sorted(of.items(), key=lambda item: -item[1])
        total = sum(of.values()) or 1.0
        out.append(f"## Kernels, {shape}\n\n" +
                   table(["kernel", "us", "share"], [[name, f"{us:.1f}", f"{us / total:.3f}"] for name, us in top[:20]]))
    for part in parts:
        if part["status"] not in (0, 77):
            tail = "\n".join(part["text"].strip().splitlines()[-15:])
            out.append(f"## {part['part']}: {part['word']}\n\n```text\n{tail}\n```\n")
    return "\n".join(out)


def main() -> int:
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_dir():
        print("usage: report.py FOLDER, where gpu_checklist.sh left its logs", file=sys.stderr)
        return 2
    folder = Path(sys.argv[1])
    parts = read_parts(folder)
    rows, times = rows_of(parts), kernel_times(parts)
    brief = [{key: part[key] for key in ("part", "word", "status", "seconds", "limit")} for part in parts]
    (folder / "report.json").write_text(json.dumps({"parts": brief, "rows": rows, "kernels_us": times}, indent=1) + "\n")
    (folder / "report.md").write_text(markdown(parts, rows, times))
    print(f"{folder}/report.md, {folder}/report.json")
    return 0


if __name__ == "__main__":
    sys.exit(main())
