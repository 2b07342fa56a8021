#!/usr/bin/env python3
"""Writes host/token/tables/unicode_tables.c from data/unicode_classes.json and data/unicode_nfc.json.

Every code point gets a set of flags (host/token/unicode.h). Few sets occur, so a code point is mapped to a set number
by a two-stage table: a block number for each 128 code points, then the numbers of a block; equal blocks are stored once.
"""
import argparse
import json
import os

from code_ranges import ends

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.path.join(HERE, "..", "host", "token", "tables", "unicode_tables.c")
N_CODES, BLOCK = 0x110000, 128

# flag, file, path in the file; the order and values are those of unicode.h
CLASSES, NFC = "unicode_classes.json", "unicode_nfc.json"
FLAGS = [
    ("LETTER", 1 << 0, CLASSES, [("regex", r"\p{L}")]),
    ("NUMBER", 1 << 1, CLASSES, [("regex", r"\p{N}")]),
    ("SPACE", 1 << 2, CLASSES, [("regex", r"\s")]),
    ("MARK", 1 << 3, CLASSES, [("regex", r"\p{M}")]),
    ("UPPER", 1 << 4, CLASSES, [("regex", p) for p in (r"\p{Lu}", r"\p{Lt}", r"\p{Lm}", r"\p{Lo}", r"\p{M}")]),
    ("LOWER", 1 << 5, CLASSES, [("regex", p) for p in (r"\p{Ll}", r"\p{Lm}", r"\p{Lo}", r"\p{M}")]),
    ("PUNCT", 1 << 6, CLASSES, [("regex", r"\p{P}")]),
    ("SYMBOL", 1 << 7, CLASSES, [("regex", r"\p{S}")]),
    ("DIGIT", 1 << 8, CLASSES, [("pre_tokenizers", "Digits")]),
    ("WORD", 1 << 9, CLASSES, [("pre_tokenizers", "Whitespace:word")]),
    ("ASSIGNED_12", 1 << 10, NFC, [("assigned",)]),
    ("NFC_CHECK", 1 << 11, NFC, [("nfc_quick_check_no_or_maybe",)]),
    ("COMBINING", 1 << 12, NFC, [("combining",)]),
]


def flags_of_codes():
    flags = [0] * N_CODES
    files = {name: json.load(open(os.path.join(HERE, "data", name), encoding="utf-8")) for name in (CLASSES, NFC)}
    for _, bit, name, paths in FLAGS:
        for path in paths:
            ranges = files[name]
            for key in path:
                ranges = ranges[key]
            for r in ranges:
                first, last = ends(r)
                for code in range(first, last + 1):
                    flags[code] |= bit
    return flags


def c_array(declaration, values, width):
    lines, per_line = [], (96 + 1) // (width + 2)
    for i in range(0, len(values), per_line):
        lines.append("    " + ", ".join(str(v) for v in values[i:i + per_line]) + ",")
    return declaration + " = {\n" + "\n".join(lines) + "\n};\n"


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("file", nargs="?", default=OUT, help="another place for it")
    wanted = ap.parse_args()
    flags = flags_of_codes()
    sets = sorted(set(flags))
    number = {s: i for i, s in enumerate(sets)}
    assert len(sets) <= 256
    blocks, first, seen = [], [], {}
    for start in range(0, N_CODES, BLOCK):
        block = tuple(number[f] for f in flags[start:start + BLOCK])
        if block not in seen:
            seen[block] = len(blocks)
            blocks.append(block)
        first.append(seen[block])
    assert len(blocks) <= 65535
    flat = [v for block in blocks for v in block]
    with open(wanted.file, "w", encoding="utf-8") as f:
        f.write("/* unicode_tables.c - character classes, made by tools/make_unicode_tables.py: change that, not this.\n"
                " * Derived from the Unicode Character Database; see tools/data/LICENSE.unicode. */\n"
                '#include "token/unicode.h"\n\n'
                "/* clang-format off */\n\n")
        f.write(c_array("const uint16_t cdz_uc_ascii[128]", flags[:128], 4) + "\n")
        f.write(c_array(f"const uint16_t cdz_uc_sets[{len(sets)}]", sets, 4) + "\n")
        f.write(c_array(f"const uint16_t cdz_uc_blocks[{len(first)}]", first, 3) + "\n")
        f.write(c_array(f"const uint8_t cdz_uc_codes[{len(flat)}]", flat, 2))
    print(f"{len(sets)} sets, {len(blocks)} blocks, {2 * len(first) + len(flat)} bytes")


main()
