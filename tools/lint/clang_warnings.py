#!/usr/bin/env python3
"""clang_warnings.py BUILD FILE...: what clang says of sources that gcc's build folder compiles, nothing generated.

The gcc build of `./dev test` sees none of clang's warnings, and clang-tidy looks at no tests: so a change could pass
everything and not compile with clang."""
import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

build, wanted = sys.argv[1], {os.path.realpath(f) for f in sys.argv[2:]}


def command_of(entry):
    text = re.sub(r"^(\S*ccache )?\S+", "clang", entry["command"])
    text = re.sub(r" -o \S+| -MD -MT \S+ -MF \S+", "", text)
    return text.replace(" -c ", " -fsyntax-only -Wno-enum-float-conversion -Wno-enum-enum-conversion ")


def said(entry):
    return subprocess.run(command_of(entry), shell=True, cwd=entry["directory"], capture_output=True, text=True).stderr


entries = {}
for one in json.load(open(os.path.join(build, "compile_commands.json"))):
    place = os.path.realpath(os.path.join(one["directory"], one["file"]))
    if place in wanted and place not in entries:
        entries[place] = one
if not entries:
    sys.exit(f"clang_warnings: {build} compiles none of {len(wanted)} files")
with ThreadPoolExecutor(os.cpu_count()) as pool:
    answers = [text for text in pool.map(said, entries.values()) if text]
print("".join(answers), end="")
sys.exit(1 if answers else 0)
