"""Writes ../matrix.json: every filter, test and method, the globals and the operators of Jinja2 over odd values and arguments
(None, undefined, empty, unicode, negative, huge, ...), as Jinja2 from PyPI gives them in the environment that transformers
5.3.0 sets up.

    python make_matrix.py   (jinja2 3.1.6; nothing else is needed)

The table: "values" and "arguments" are expressions that v and a are set to (written into the form they would be worked out
by the optimiser, which has rules of its own); a row is a "form" with v and a for %V and %A, and for each value, for each
argument, an outcome: a string (the output), 0 (an error of any kind, whose words differ between the engines) or null (not
compared: the output has an address in it, or Python ran out of memory or time). "%A" absent from the form: one outcome a value."""
import json
import os
import resource
import signal

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment

VALUES = ["none", "gone", "true", "0", "-7", "3", "2.5", "9223372036854775807", "''", "'Hello World'", "'\u00e9\U0001f600 \u00df\u01c6'",
          "'  a-b\\tc\\n'", "'12'", "[]", "[3, 1, 2]", "['b', 'A', none]", "[{'a': 1}, {'a': none}, {}]", "(1, 'x')", "{}",
          "{'b': 1, 'A': none}", "range(3)"]
ARGUMENTS = ["none", "gone", "true", "0", "-1", "2", "1.5", "9223372036854775807", "''", "'a'", "'\u00e9'", "[]", "['a', 'l']", "{'a': 1}"]
LAZY = {"batch", "slice", "map", "select", "reject", "selectattr", "rejectattr", "unique", "items", "reverse"}
CHANCE = {"random", "lipsum"}
STRING_METHODS = ["capitalize", "casefold", "center", "count", "encode", "endswith", "expandtabs", "find", "format", "format_map", "index", "isalnum", "isalpha",
                  "isascii", "isdecimal", "isdigit", "isidentifier", "islower", "isnumeric", "isprintable", "isspace", "istitle", "isupper", "join", "ljust",
                  "lower", "lstrip", "partition", "removeprefix", "removesuffix", "replace", "rfind", "rindex", "rjust", "rpartition", "rsplit", "rstrip",
                  "split", "splitlines", "startswith", "strip", "swapcase", "title", "translate", "upper", "zfill"]
OTHER_METHODS = ["get", "keys", "values", "items", "copy", "bit_length", "is_integer"]
TWO = {"filter": ["replace", "truncate", "default", "round", "int", "indent", "wordwrap", "join", "sum", "batch", "slice", "selectattr", "map", "tojson", "dictsort",
                  "groupby", "trim"],
       "method": ["replace", "split", "rsplit", "find", "count", "center", "startswith", "endswith", "get", "ljust"]}
OPERATORS = ["+", "-", "*", "/", "//", "%", "**", "~", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "and", "or"]


def environment():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    return env


class Late(BaseException):  # the optimiser takes an Exception for what is no constant
    pass


def outcome(env, text):
    def late(*_):
        raise Late
    signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        out = env.from_string(text).render()
    except (MemoryError, Late):
        return None
    except Exception:  # noqa: BLE001
        return 0
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    try:
        out.encode()
    except UnicodeEncodeError:
        return None
    return None if " at 0x" in out or len(out) > 2000 else out


def forms(env):
    after = lambda name: " | list" if name in LAZY else ""
    for name in sorted(set(env.filters) - CHANCE):
        yield "{{ %V | " + name + after(name) + " }}"
        yield "{{ %V | " + name + "(%A)" + after(name) + " }}"
    for name in TWO["filter"]:
        yield "{{ %V | " + name + "(%A, 'a')" + after(name) + " }}"
        yield "{{ %V | " + name + "(2, %A)" + after(name) + " }}"
        yield "{{ %V | " + name + "('a', %A)" + after(name) + " }}"
    for key in ("attribute", "default"):
        for name in ("map", "join", "sort", "sum", "min", "max", "unique", "groupby"):
            yield "{{ %V | " + name + "(" + ("attribute='a', default=%A" if key == "default" else "attribute=%A") + ")" + after(name) + " }}"
    for name in sorted(t for t in env.tests if t[0].isalpha()):
        yield "{{ %V is " + name + " }}"
        yield "{{ %V is " + name + "(%A) }}"
    for name in STRING_METHODS + OTHER_METHODS:
        yield "{{ (%V)." + name + "() }}"
        yield "{{ (%V)." + name + "(%A) }}"
    for name in TWO["method"]:
        yield "{{ (%V)." + name + "(%A, 1) }}"
        yield "{{ (%V)." + name + "('a', %A) }}"
    for name in ("range", "dict", "namespace", "cycler", "joiner", "raise_exception"):
        yield "{{ " + name + "(%V) is defined }}"
    yield "{{ range(%V, %A) | list }}"
    yield "{{ range(0, %V, %A) | list }}"
    yield "{{ dict(a=%V).get('a', %A) }}"
    yield "{{ namespace(a=%V).a }}"
    yield "{{ cycler(%V, %A).next() }}"
    yield "{% set j = joiner(%V) %}{{ j() }}{{ j() }}"
    for op in OPERATORS:
        yield "{{ (%V) " + op + " (%A) }}"
    for text in ("not %V", "-%V", "+%V", "(%V)[%A]", "(%V)[%A:]", "(%V)[:%A]", "(%V)[::%A]", "(%V).a", "[%V, %A]", "{%A: %V}", "%V if %A else 'no'",
                 "'%s' % (%V)", "'%d' % (%V)", "'%r|%5.1f' % (%V, %A)", "'{}|{!r}'.format(%V, %A)", "'{:>4}'.format(%V)"):
        yield "{{ " + text + " }}"
    yield "{% for x in %V %}{{ loop.index }}{{ x }};{% else %}none{% endfor %}"
    yield "{% for x in %V if x %}{{ x }}{{ loop.last }}{% endfor %}"
    yield "{% set a, b = %V %}{{ a }}{{ b }}"
    yield "{% if %V %}y{% else %}n{% endif %}"


def row(env, form):
    body = form.replace("%V", "v").replace("%A", "a")
    if "%A" not in form:
        return [outcome(env, "{% set v = " + v + " %}" + body) for v in VALUES]
    # Python works a huge power out, without looking up.
    return [[None if "**" in form and a.startswith("9") else outcome(env, "{% set v = " + v + " %}{% set a = " + a + " %}" + body)
             for a in ARGUMENTS] for v in VALUES]


if __name__ == "__main__":
    assert jinja2.__version__ == "3.1.6", jinja2.__version__
    resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
    env = environment()
    table = {"jinja2": jinja2.__version__, "values": VALUES, "arguments": ARGUMENTS, "rows": []}
    lines, n = [], 0
    for form in dict.fromkeys(forms(env)):
        out = row(env, form)
        n += sum(len(r) if isinstance(r, list) else 1 for r in out)
        if os.environ.get("VERBOSE"):
            print(form, flush=True)
        lines.append(json.dumps({"form": form, "out": out}, separators=(",", ":")))
    here = os.path.dirname(os.path.abspath(__file__))
    head = json.dumps({k: v for k, v in table.items() if k != "rows"}, separators=(",", ":"))
    with open(os.path.join(here, "..", "matrix.json"), "w") as f:
        f.write(head[:-1] + ',"rows":[\n' + ",\n".join(lines) + "\n]}\n")
    print(len(lines), "forms,", n, "expressions")
