"""Writes tools/data/unicode_scripts.json: the classes between which the UnicodeScripts pre-tokenizer
cuts, as ranges of code points, read off the reference library itself. What is in no class is dropped at
the start of a text and goes with its neighbours elsewhere."""
import json
import os

from tokenizers import pre_tokenizers

ALL = [c for c in range(0x110000) if not 0xd800 <= c < 0xe000]
CUT = pre_tokenizers.UnicodeScripts().pre_tokenize_str
known = [chr(c) for c in ALL if CUT(chr(c))]
text = "".join(known)
reps, classes = [], []
for piece, _ in CUT(text):
    k = next((i for i, r in enumerate(reps) if len(CUT(r + piece[0])) == 1), len(reps))
    if k == len(reps):
        reps.append(piece[0])
        classes.append([])
    classes[k].extend(map(ord, piece))


def ranges(codes):
    out = []
    for c in sorted(codes):
        if out and out[-1][1] == c - 1:
            out[-1][1] = c
        else:
            out.append([c, c])
    return [f"{a:X}" if a == b else f"{a:X}-{b:X}" for a, b in out]


here = os.path.dirname(os.path.abspath(__file__))
json.dump([ranges(c) for c in classes], open(os.path.join(here, "..", "..", "..", "tools", "data", "unicode_scripts.json"), "w"),
          separators=(",", ":"))
print(len(classes), "classes,", len(known), "code points")
