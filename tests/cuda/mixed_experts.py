"""mixed_experts.py IN OUT: a mixture's folder again, expert 1's first matrix of each layer in bf16."""
import json
import pathlib
import shutil
import struct
import sys

source, target = map(pathlib.Path, sys.argv[1:])
shutil.copytree(source, target)
raw = (source / "model.safetensors").read_bytes()
n = struct.unpack("<Q", raw[:8])[0]
header, data, out = json.loads(raw[8:8 + n]), raw[8 + n:], bytearray()
cut = 0
for name, entry in header.items():
    if name == "__metadata__":
        continue
    start, end = entry["data_offsets"]
    values = data[start:end]
    if "experts.1.w1" in name:
        assert entry["dtype"] == "F32", entry
        entry["dtype"] = "BF16"
        cut += 1
        values = b"".join(values[i + 2:i + 4] for i in range(0, len(values), 4))  # the upper half: cut, not rounded
    entry["data_offsets"] = [len(out), len(out) + len(values)]
    out += values
assert cut > 0, "no such matrix"
text = json.dumps(header).encode()
text += b" " * (-len(text) % 8)
(target / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + out)
