#!/usr/bin/env python3
"""Writes host/describe/abi_table.inc: every struct, field, enumerator and constant of the plugin ABI, as rows of macros.

The C compiler knows sizes and offsets; this only finds the names. The public headers are preprocessed and read as text.
"""
import argparse
import os
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
SDK = ROOT / "sdk" / "include"
OUT = ROOT / "host" / "describe" / "abi_table.inc"
# Plugins see the freestanding headers alone; cadenza.h is for programs that embed the host.
OTHERS = {"cadenza.h"}


def headers():
    found = sorted(SDK.glob("cadenza/*.h")) + sorted(SDK.glob("cadenza/ext/*.h"))
    return [h.relative_to(SDK) for h in found if h.name not in OTHERS]


def preprocessed():
    text = "".join(f'#include "{h}"\n' for h in headers())
    cc = os.environ.get("CC", "cc")
    return subprocess.run([cc, "-std=c17", "-E", "-P", f"-I{SDK}", "-xc", "-"], input=text, text=True,
                          capture_output=True, check=True).stdout


def field_rows(struct, body):
    body = re.sub(r"__attribute__ *\(\([^;]*\)\)", "", body)
    for part in body.split(";"):
        words = " ".join(part.split())
        if not words:
            continue
        function = re.search(r"\( ?\* ?(?:const )?(\w+) ?\)", words)
        if function:
            yield f'ABI_FIELD({struct}, {function[1]}, "{words}")'
            continue
        pieces = words.split(",")
        first = re.match(r"(.*?)(\**\w+(?: ?\[[^\]]*\])*)$", pieces[0])
        for piece in [first[2]] + [p.strip() for p in pieces[1:]]:
            name = re.search(r"\w+", piece)[0]
            yield f'ABI_FIELD({struct}, {name}, "{first[1].strip()} {piece}")'


def rows():
    text = preprocessed()
    for match in re.finditer(r"\b(struct|enum)\s+(cdz_\w+)\s*\{([^}]*)\}", text):
        kind, name, body = match.groups()
        if kind == "struct":
            yield f"ABI_STRUCT({name})"
            yield from field_rows(name, body)
        else:
            yield f"ABI_ENUM({name})"
            for part in body.split(","):
                value = part.split("=")[0].strip()
                if value:
                    yield f"ABI_VALUE({value})"


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("file", nargs="?", type=pathlib.Path, default=OUT, help="another place for it")
    out = ap.parse_args().file
    head = "/* abi_table.inc - the names of the plugin ABI, made by tools/make_abi_table.py: change that, not this. */\n"
    out.write_text(head + "\n".join(rows()) + "\n")


main()
