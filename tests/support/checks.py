"""checks.py - what the scripts of tests share: checks that are counted, and what a terminal is told. Python's standard library alone."""
import os
import sys

failures = []
n_checks = 0


def check(what, good, found=""):
    global n_checks
    n_checks += 1
    if not good:
        failures.append(what)
        print(f"FAILED {what}: {str(found)[:900]}", flush=True)


def done():
    print(f"COUNTED {n_checks - len(failures)} passed, {len(failures)} failed, 0 skipped")
    sys.exit(1 if failures else 0)


def read_terminal(master):
    """All that comes until nobody has the other side open any more."""
    text = b""
    while True:
        try:
            piece = os.read(master, 65536)
        except OSError:
            return text
        if not piece:
            return text
        text += piece
