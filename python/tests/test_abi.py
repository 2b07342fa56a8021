"""What cffi knows of the library is what a C program says of the headers: sizes and places."""

import pathlib
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
STRUCTS = (
    "cdz_error cdz_options cdz_model_options cdz_event cdz_request cdz_stats cdz_result_tensor cdz_transition "
    "cdz_function_row cdz_function_model cdz_rules_options cdz_plugin_base cdz_param cdz_step cdz_scores cdz_request_info cdz_host cdz_processor cdz_criterion cdz_stop cdz_ids cdz_drafter cdz_draft cdz_observer cdz_seen cdz_ended_api"
).split()

needs_compiler = pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler")


@needs_compiler
def test_sizes_and_places(tmp_path):
    from cadenza._abi import ffi

    lines = ["#include <stdio.h>", "#include <cadenza/cadenza.h>", "#include <cadenza/processor.h>",
             "#include <cadenza/criterion.h>", "#include <cadenza/drafter.h>", "#include <cadenza/observer.h>", "#include <cadenza/ext/ended.h>", "int main(void) {"]  # fmt: skip
    for name in STRUCTS:
        lines.append(f'printf("{name} size %zu\\n", sizeof({name}));')
        for field, _ in ffi.typeof(name).fields:
            lines.append(f'printf("{name} {field} %zu\\n", offsetof({name}, {field}));')
    lines.append("return 0; }")
    source = tmp_path / "places.c"
    source.write_text("\n".join(lines))
    subprocess.run(["cc", f"-I{ROOT}/sdk/include", source, "-o", tmp_path / "places"], check=True)
    told = subprocess.run([tmp_path / "places"], check=True, capture_output=True, text=True).stdout
    assert len(told.splitlines()) > 150
    for line in told.splitlines():
        name, field, number = line.split()
        known = ffi.sizeof(name) if field == "size" and f"{name} size" == line.rsplit(" ", 1)[0] and _is_sizeof(told, line) else None
        if known is None:
            known = ffi.offsetof(name, field)
        assert known == int(number), line


def _is_sizeof(told, line):
    """The first line of a struct is its size; a field may be called size too."""
    name = line.split()[0]
    return next(each for each in told.splitlines() if each.startswith(name + " ")) == line
