#!/usr/bin/env python3
"""Writes docs/reference/python.md, every public name of the package `cadenza`, from its docstrings.

The package is read, not imported. What has no docstring is shown by its signature; a class or function without one is an error.
"""
import argparse
import ast
import inspect
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "python" / "cadenza"
# The order of the page; each module's own text is the head of its section.
ORDER = ("model tokenizer config outputs processors builtin biases cuts watermarks watchers cache sequences forward sampling streamers "
         "pipelines manager notebook jobs ray transformers lm_eval errors").split()  # fmt: skip
OWN = {"jobs": "Answers run JobError", "ray": "map_batches", "lm_eval": "CadenzaLM main", "transformers": "processor criterion strategy"}
WIDTH = 132


def exported():
    """Module: the names that the package has of it."""
    tree = ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8"))
    where = next(n.value for n in tree.body if isinstance(n, ast.Assign) and n.targets[0].id == "_WHERE")
    found = {module: names.split() for module, names in ast.literal_eval(where).items()}
    for module, names in OWN.items():
        found[module] = sorted({*found.get(module, []), *names.split()})
    missing = set(found) - set(ORDER)
    if missing:
        sys.exit(f"python-pages: no place on the page for the modules {sorted(missing)}")
    return found


def signature(node, name):
    """name(arguments), without self, broken where it is long."""
    arguments = node.args
    if arguments.args and arguments.args[0].arg in ("self", "cls"):
        arguments.args.pop(0)
    text = ast.unparse(arguments)
    returns = f" -> {ast.unparse(node.returns)}" if node.returns is not None and name[-8:] != "__init__" else ""
    line = f"{name}({text}){returns}"
    if len(line) <= WIDTH:
        return line
    parts, depth, start = [], 0, 0
    for i, letter in enumerate(text):
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            parts.append(text[start : i + 1])
            start = i + 2
    parts.append(text[start:])
    lines = [f"{name}("]
    for part in parts:
        if len(lines[-1]) + len(part) + 1 > WIDTH or len(lines) == 1:
            lines.append("   ")
        lines[-1] += " " + part
    return "\n".join([*lines, f"){returns}"])


def doc(node):
    text = ast.get_docstring(node)
    if not text:
        return ""
    # Examples in docstrings are indented; on the page they are blocks.
    out, block = [], []
    for line in [*inspect.cleandoc(text).split("\n"), "."]:
        if line.startswith("    ") or (block and not line):
            block.append(line[4:])
            continue
        if block:
            while block and not block[-1]:
                block.pop()
            out += ["```text", *block, "```", ""]
            block = []
        out.append(line.replace("``", "`").replace(":class:", "").replace(":func:", "").replace(":meth:", "").replace(":data:", ""))
    return "\n".join(out[:-1]).strip() + "\n"


def function(node, name, level):
    return f"{level} {name}\n\n```text\n{signature(node, name)}\n```\n\n{doc(node)}"


def visible(node):
    return isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and (not node.name.startswith("_") or node.name == "__call__")


def whole_class(node, name):
    bases = ", ".join(ast.unparse(base) for base in node.bases)
    made = next((n for n in node.body if isinstance(n, ast.FunctionDef) and n.name == "__init__"), None)
    head = signature(made, name).removesuffix(" -> None") if made is not None else name
    text = f"### {name}\n\n```text\nclass {head}{' of ' + bases if bases else ''}\n```\n\n{doc(node)}"
    rest = []
    for method in filter(visible, node.body):
        said = doc(method)
        if said and method.name != "__call__" or (said and method.name == "__call__"):
            shown = signature(method, f"{name}.{method.name}" if method.name != "__call__" else name.lower())
            property_ = any(ast.unparse(d) == "property" for d in method.decorator_list)
            rest.append(f"```text\n{shown.replace('()', '', 1) if property_ else shown}\n```\n\n{said}")
    return text + ("\n" + "\n".join(rest) if rest else "")


def module(name, names):
    tree = ast.parse((PACKAGE / f"{name}.py").read_text(encoding="utf-8"))
    known = {n.name: n for n in tree.body if isinstance(n, (ast.ClassDef, ast.FunctionDef))}
    made = [f"## {name}\n\n{doc(tree)}"]
    others = []
    for each in names:
        node = known.get(each)
        if node is None:
            others.append(each)  # another name of something here
        elif not ast.get_docstring(node):
            sys.exit(f"python-pages: cadenza.{each} ({name}.py:{node.lineno}) has no docstring")
        else:
            made.append(function(node, each, "###") if isinstance(node, ast.FunctionDef) else whole_class(node, each))
    if others:
        made.append("Other names: " + ", ".join(f"`{each}`" for each in others) + ".\n")
    return "\n".join(made)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("file", nargs="?", type=pathlib.Path, default=ROOT / "docs" / "reference" / "python.md", help="another place for it")
    out = ap.parse_args().file
    found = exported()
    page = ["# The Python package, name by name\n\nWritten by `tools/docs/python-pages.py` from the package's docstrings. The guide is "
            "[Python](../python.md).\n"]  # fmt: skip
    page += [module(name, found[name]) for name in ORDER if name in found]
    text = "\n".join(page)
    while "\n\n\n" in text:
        text = text.replace("\n\n\n", "\n\n")
    out.write_text(text.rstrip() + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
