"""Ranges of code points as tools/data has them, "41-5A" or "AA", and rows of numbers as C writes them."""


def ends(text):
    first, _, last = text.partition("-")
    return int(first, 16), int(last or first, 16)


def c_rows(rows):
    cells, lines, line = ["{" + ", ".join(f"0x{v:X}" for v in row) + "}" for row in rows], [], ""
    for cell in cells:
        if len(line) + len(cell) > 94:
            lines.append(line.rstrip())
            line = ""
        line += cell + ", "
    return "\n".join("    " + x for x in lines + [line.rstrip()])
