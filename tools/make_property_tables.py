#!/usr/bin/env python3
"""Writes host/grammar/tables/property_tables.c from data/unicode_properties.json: what \\p{..} of a pattern may name. Names are
written as they are compared: small letters and digits alone.
"""
import argparse
import json
import os
import re

from code_ranges import c_rows, ends

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.path.join(HERE, "..", "host", "grammar", "tables", "property_tables.c")
# utf8proc's numbers of the categories
CATEGORIES = ("Cn Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Cs Co").split()


def compared(name):
    return re.sub("[^a-z0-9]", "", name.lower())


def mask(category):
    wanted = ("Lu", "Ll", "Lt") if category == "LC" else category
    return sum(1 << i for i, c in enumerate(CATEGORIES) if c in wanted or c.startswith(category))


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("file", nargs="?", default=OUT, help="another place for it")
    wanted = ap.parse_args()
    data = json.load(open(os.path.join(HERE, "data", "unicode_properties.json"), encoding="utf-8"))
    names, spans = [], []
    for kind, key in (("BINARY", "binary"), ("SCRIPT", "scripts")):
        for aliases, ranges in data[key]:
            names += [(compared(a), f"CDZ_PROPERTY_{kind}, {len(spans)}, {len(ranges)}") for a in aliases]
            spans += [ends(r) for r in ranges]
    for aliases in data["categories"]:
        short = min(aliases, key=len)
        names += [(compared(a), f"CDZ_PROPERTY_CATEGORY, 0x{mask(short):X}, 0") for a in aliases]
    names.sort()
    with open(wanted.file, "w", encoding="utf-8") as f:
        f.write("/* property_tables.c - scripts, binary properties and categories by name, made by tools/make_property_tables.py: change that,\n"
                f" * not this. Derived from the Unicode Character Database {data['version']}; see tools/data/LICENSE.unicode. */\n"
                '#include "grammar/property.h"\n\n/* clang-format off */\n'
                "const cdz_code_span cdz_property_spans[] = {\n"
                + c_rows(spans) + "\n};\n\n"
                "const cdz_property cdz_properties[] = {\n"
                + "\n".join(f'    {{"{name}", {rest}}},' for name, rest in names) + "\n};\n"
                "const size_t cdz_properties_n = sizeof cdz_properties / sizeof *cdz_properties;\n")


main()
