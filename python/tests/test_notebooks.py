"""The example notebooks run, and show what their files show. As a program: runs them and writes what they show.

    python test_notebooks.py
"""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "examples" / "notebooks"
NAMES = sorted(path.stem for path in FOLDER.glob("*.ipynb"))


def run(name):
    """(the notebook as it is in the file, as it is after running)"""
    import nbclient
    import nbformat

    made = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    before = [list(cell.get("outputs", [])) for cell in made.cells]
    client = nbclient.NotebookClient(made, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(FOLDER)}})
    client.execute()
    return before, made


def shown(outputs):
    """What a reader sees: printed text, and each way of showing a value."""
    texts = []
    for output in outputs:
        if output.output_type == "stream":
            texts.append(output.text)
        else:
            texts += [f"{kind}: {text}" for kind, text in sorted(output.get("data", {"error": output.get("evalue")}).items())]
    return re.sub(r"0x[0-9a-f]+", "0x", "\n".join(texts))


@pytest.mark.parametrize("name", NAMES)
def test_notebook(name):
    pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    before, made = run(name)
    assert any(before)
    for old, cell in zip(before, made.cells):
        assert shown(cell.get("outputs", [])) == shown(old), cell.source


def test_there_are_three():
    assert len(NAMES) == 3


if __name__ == "__main__":
    import nbformat

    for each in NAMES:
        _, notebook = run(each)
        for cell in notebook.cells:
            cell.metadata.pop("execution", None)  # times
        notebook.metadata = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
        nbformat.write(notebook, FOLDER / f"{each}.ipynb")
