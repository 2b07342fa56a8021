"""Makes cadenza/_abi.py, what cffi knows of the library, from the public headers.

    python declarations.py HEADERS OUT      needs cffi and a C preprocessor (CC, or cc)

A wheel's build runs it (python/CMakeLists.txt). To use the package from its source folder:
    cd python/cadenza && python ../tools/declarations.py ../../sdk/include _abi.py
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HEADERS = ("cadenza/cadenza.h", "cadenza/processor.h", "cadenza/criterion.h", "cadenza/drafter.h", "cadenza/observer.h", "cadenza/ext/ended.h", "cadenza/ext/scores.h")
STANDARD = ("stdbool.h", "stddef.h", "stdint.h")


def preprocessed(include: pathlib.Path) -> str:
    """The headers without comments, macros and the standard's own declarations."""
    with tempfile.TemporaryDirectory() as folder:
        empty = pathlib.Path(folder)
        for name in STANDARD:
            (empty / name).write_text("")
        source = "".join(f"#include <{name}>\n" for name in HEADERS)
        command = [os.environ.get("CC") or "cc", "-E", "-P", "-undef", "-nostdinc", f"-I{empty}", f"-I{include}", "-x", "c", "-"]
        return subprocess.run(command, input=source, text=True, capture_output=True, check=True).stdout


def declarations(text: str) -> str:
    """What cffi reads: no functions with bodies, no symbol of a plugin's own file."""
    text = re.sub(r"\n?static inline .*?\n\{.*?\n\}", "", text, flags=re.DOTALL)
    text = re.sub(r"extern\s+const cdz_entry cdz_plugin;", "", text)
    return text


def main(include: str, out: str) -> None:
    import cffi

    ffi = cffi.FFI()
    ffi.set_source("cadenza._abi", None)
    ffi.cdef(declarations(preprocessed(pathlib.Path(include))))
    ffi.emit_python_code(out)


if __name__ == "__main__":
    main(*sys.argv[1:])
