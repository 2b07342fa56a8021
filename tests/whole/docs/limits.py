#!/usr/bin/env python3
"""docs/limits.md and the code say the same. usage: limits.py ROOT

Each value that names a constant is the constant's; each sentence of the page is in the code; each sentence that refuses
something past a limit (CDZ_E_LIMIT, the templates' tpl_fail_limit, the server's statuses) is on the page."""
import pathlib
import re
import sys

UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "bytes": 1, "ms": 1, "s": 1, "": 1}
LITERALS = r'(?:"(?:[^"\\]|\\.)*"|PRI\w+|[A-Z]+\("[a-z]+"\)|\s)+'
OF_LIMITS = {"408", "413", "414", "429", "431"}  # statuses of the server that say nothing else
PAST = re.compile(r"more than|longer than|too (many|long|large)")
REFUSED = re.compile(r"(?:fault_set\([^,]+, |\brefuse\(\w+, |refusal_write\([^,]+, )([0-9]{3}), (?:(?:NULL|\"[a-z_]*\"),\s*){0,2}")
TOO_SHORT = 8  # letters of a sentence that has little but names and numbers in it


def plain(literals):
    """Adjacent literals as one text, conversions as an ellipsis."""
    text = re.sub(r'"\s*PRI\w+\s*"', "lld", literals)
    text = re.sub(r'"\s*PRI\w+', 'lld"', text)
    text = re.sub(r'KEY\("([a-z]+)"\)', r'"tokenizer.ggml.\1"', text)
    text = "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', text)).replace('\\"', '"')
    text = re.sub(r"%(\.\*|[-0 +#]*[0-9]*(\.[0-9]+)?)(hh|ll|[hlzj])?[a-zA-Z]|%(?= |$|\)|:)", "…", text)
    return re.sub(r"(…[:.]*)+(1:)?(?=…)|(?<=…):1(?=:)|(?<=…)\.\.\.", "", text)


def bare(text):
    """Without what is around a sentence: the place it begins with."""
    text = re.sub(r"(…:)+…", "…", text)
    return re.sub(r"^(\[?…: )+|(: )?…$", "", text).strip()


def code(path):
    """Its text, without characters such as '"', which begin no literal."""
    return re.sub(r"'\\?.'", "0", path.read_text())


def number(text):
    m = re.fullmatch(r"([0-9,]+) ?(KiB|MiB|GiB|bytes|ms|s|)", text)
    return int(m.group(1).replace(",", "")) * UNITS[m.group(2)] if m else None


def constant(source, name):
    m = re.search(r"\b%s\b[\s\\]*=?\s*\(?\(?(?:size_t\)|uint64_t\))?\s*([0-9]+)u?\)?\s*(?:<<\s*([0-9]+))?" % name, source)
    return int(m.group(1)) << int(m.group(2) or 0) if m else None


def rows(page):
    for line in page.splitlines():
        cells = [c.strip() for c in re.split(r" \|(?= |$)", line[1:])]
        if line.startswith("| ") and len(cells) == 6 and cells[1] != "value":
            yield cells[0], cells[1], cells[2], cells[4]


def check_values(root, page, wrong):
    for name, value, _, where in rows(page):
        found = re.findall(r"`([^`]+)`", where)
        if not found:
            continue
        path, const = found
        real = constant(code(root / path), const)
        if number(value) is None or real != number(value):
            wrong.append(f"{name}: {value} on the page, {const} of {path} is {real}")


def refusals(root):
    for path in sorted((root / "host").rglob("*.c")):
        source = code(path)
        for m in re.finditer(r"CDZ_E_LIMIT,\s*|tpl_fail_limit\((?:st|js->st),\s*", source):
            text = re.match(LITERALS, source[m.end():])
            if text:
                yield path.relative_to(root), plain(text.group(0))


def refused_requests(root):
    """The server's: by their status, else by their words."""
    for path in sorted((root / "host/serve").glob("*.c")):
        source = code(path)
        for m in REFUSED.finditer(source):
            text = re.match(r"\s*(%s)" % LITERALS, source[m.end():])
            if text and (m.group(1) in OF_LIMITS or PAST.search(plain(text.group(1)))):
                yield path.relative_to(root), plain(text.group(1))


def main(root):
    page = (root / "docs/limits.md").read_text()
    wrong = []
    check_values(root, page, wrong)
    said = {bare(s) for _, _, cell, _ in rows(page) for s in re.findall(r"`([^`]+)`", cell)}
    known = {bare(plain(m.group(0))) for p in (root / "host").rglob("*.[ch]")
             for m in re.finditer(LITERALS, code(p)) if '"' in m.group(0)}
    wrong += [f"no such sentence in the code: {s}" for s in sorted(said) if s not in known]
    n = 0
    for path, text in (*refusals(root), *refused_requests(root)):
        n += 1
        if bare(text) not in said and len(bare(text)) >= TOO_SHORT and "out of memory" not in text:
            wrong.append(f"{path}: this limit is not on the page: {text}")
    if n < 125:
        wrong.append(f"only {n} refusals were found in the code")
    print("\n".join(wrong) or f"{len(list(rows(page)))} limits, {n} sentences")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
