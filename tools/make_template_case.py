#!/usr/bin/env python3
"""Writes host/template/case_table.inc: the code points whose upper or title case is more than one code point (Unicode's
SpecialCasing without conditions), which utf8proc's simple mappings lack. Prints it."""
import argparse
import sys

argparse.ArgumentParser(description=__doc__).parse_args()

print("/* Made by tools/make_template_case.py: code point, upper case, title case. */")
for code in range(0x110000):
    if 0xD800 <= code < 0xE000:
        continue
    c = chr(code)
    if len(c.upper()) > 1 or len(c.title()) > 1:
        text = lambda s: '"' + "".join("\\x%02x" % b for b in s.encode()) + '"'
        sys.stdout.write("{0x%04x, %s, %s},\n" % (code, text(c.upper()), text(c.title())))
