#!/usr/bin/env python3
"""Writes host/token/tables/text_tables.c from data/unicode_classes.json and data/unicode_scripts.json: the classes that only some
normalizers and pre-tokenizers ask for, as sorted ranges, and the lower-case letters.
"""
import argparse
import json
import os

from code_ranges import c_rows, ends

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.path.join(HERE, "..", "host", "token", "tables", "text_tables.c")
CLASSES = [
    ("bert_dropped", "normalizers", "Bert.clean_text:removed"),
    ("bert_blank", "normalizers", "Bert.clean_text:to_space"),
    ("bert_chinese", "normalizers", "Bert.chinese"),
    ("bert_accent", "normalizers", "Bert.strip_accents:removed"),
    ("accent", "normalizers", "StripAccents:removed"),
    ("nmt_dropped", "normalizers", "Nmt:removed"),
    ("nmt_blank", "normalizers", "Nmt:to_space"),
    ("punctuation", "pre_tokenizers", "Punctuation"),
    ("bert_punctuation", "pre_tokenizers", "BertPreTokenizer:punctuation"),
]


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("file", nargs="?", default=OUT, help="another place for it")
    wanted = ap.parse_args()
    classes = json.load(open(os.path.join(HERE, "data", "unicode_classes.json"), encoding="utf-8"))
    scripts = json.load(open(os.path.join(HERE, "data", "unicode_scripts.json"), encoding="utf-8"))
    out = ["/* text_tables.c - character classes of single parts, made by tools/make_text_tables.py: change that, not this.\n"
           " * Derived from the Unicode Character Database; see tools/data/LICENSE.unicode. */\n"
           '#include "token/text_class.h"\n\n/* clang-format off */\n']
    for name, group, key in CLASSES:
        rows = [ends(r) for r in classes[group][key]]
        out.append(f"static const cdz_code_range {name}[] = {{\n{c_rows(rows)}\n}};\n")
    lines = ",\n".join(f"    {{{name}, sizeof {name} / sizeof *{name}}}" for name, _, _ in CLASSES)
    out.append(f"/* By cdz_text_class. */\nconst cdz_code_class cdz_code_classes[] = {{\n{lines},\n}};\n")
    rows = sorted(ends(r) + (i + 1,) for i, ranges in enumerate(scripts) for r in ranges)
    out.append(f"static const cdz_script_range scripts[] = {{\n{c_rows(rows)}\n}};\n"
               "const cdz_script_range *const cdz_scripts = scripts;\n"
               "const size_t cdz_scripts_n = sizeof scripts / sizeof *scripts;\n")
    rows = sorted((int(k, 16), ord(v)) for k, v in classes["lowercase"].items() if len(v) == 1)
    out.append(f"static const cdz_lower_pair lower[] = {{\n{c_rows(rows)}\n}};\n"
               "const cdz_lower_pair *const cdz_lower_pairs = lower;\n"
               "const size_t cdz_lower_pairs_n = sizeof lower / sizeof *lower;\n")
    open(wanted.file, "w", encoding="utf-8").write("\n".join(out))


main()
