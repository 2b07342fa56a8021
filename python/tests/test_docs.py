"""The Python code of the guide and of the README runs, page by page, its blocks one after the other."""

import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("page", ["docs/python.md", "README.md"])
def test_page(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cadenza-source").symlink_to(ROOT)
    (tmp_path / "models").symlink_to(ROOT / "models")  # the README is read in the source folder
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert blocks
    names = {}
    for number, block in enumerate(blocks, 1):
        exec(compile(block, f"{page}, block {number}", "exec"), names)


def test_reference_is_the_docstrings(tmp_path):
    subprocess.run([sys.executable, ROOT / "tools" / "docs" / "python-pages.py", tmp_path / "python.md"], check=True)
    made, kept = ((folder / "python.md").read_text(encoding="utf-8") for folder in (tmp_path, ROOT / "docs" / "reference"))
    assert made == kept, "docs/reference/python.md is older than the docstrings: run tools/docs/python-pages.py"
