#!/usr/bin/env python3
"""Prints facts about the structure of the code, each as one line or a short list: circles of rooms, floors, functions,
structs, guarded calls, asserts, comments, names. Nothing is built.

    tools/house.py            all of them
    tools/house.py functions  one
    tools/house.py hold FILE  none: which of the file's limits the code does not keep (tools/lint/house.txt)

A fact returns its figures by name; those of the file are compared."""
import argparse
import collections
import contextlib
import io
import re
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def files(pattern, *suffixes):
    out = subprocess.run(['git', 'ls-files', '--', pattern], cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / f for f in out.stdout.split() if f.endswith(suffixes) and (ROOT / f).exists()]


def text(path):
    return path.read_text(errors='replace')


def name(path):
    return str(path.relative_to(ROOT))


def bare(source):
    """Source without comments and string literals, line for line."""
    def blank(match):
        return re.sub(r'[^\n]', ' ', match.group(0))
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', blank, source, flags=re.S)


def room_of(path):
    return '/'.join(path.relative_to(ROOT / 'host').parts[:-1])


def includes():
    """{room: {room it includes: [files that do]}} of host/."""
    edges = collections.defaultdict(lambda: collections.defaultdict(list))
    for path in files('host', '.c', '.h'):
        for to in re.findall(r'^#include "([a-z_/]+)/[^/"]+"', text(path), re.M):
            if to != room_of(path) and (ROOT / 'host' / to).is_dir():
                edges[room_of(path)][to].append(name(path))
    return edges


def circles():
    edges, index, low, stack, found = includes(), {}, {}, [], []

    def visit(v):
        index[v] = low[v] = len(index)
        stack.append(v)
        for w in edges[v]:
            if w not in index:
                visit(w)
            if w in stack:
                low[v] = min(low[v], low[w])
        if low[v] == index[v]:
            at = stack.index(v)
            if len(stack) - at > 1:
                found.append(sorted(stack[at:]))
            del stack[at:]
    for room in list(edges):
        if room not in index:
            visit(room)
    print(f'circles of rooms: {len(found)}', *(' '.join(c) for c in found), sep='\n  ' if found else '')
    return {'circles of rooms': len(found)}


def floors():
    run = subprocess.run([ROOT / 'tools/lint/floors.sh'], capture_output=True, text=True)
    up = [line for line in run.stdout.splitlines() if 'includes' in line]
    listed = sum(line.startswith('visitor:') for line in text(ROOT / 'tools/lint/floors.txt').splitlines())
    print(f'includes that go up a floor: {len(up)}; files of the program that look past cadenza.h: {listed}')
    for line in up:
        print('  ' + line)
    return {'includes that go up a floor': len(up), 'files that look past cadenza.h': listed}


def functions():
    lengths = []
    for where in ('host', 'kernels', 'processors', 'strategies', 'drafters', 'schedulers', 'presses', 'plugins'):
        for path in files(where, '.c'):
            lines = bare(text(path)).split('\n')
            start = None
            for i, line in enumerate(lines):
                if line.startswith('{') and i and lines[i - 1].rstrip().endswith(')'):
                    start = i
                elif line.startswith('}') and start is not None:
                    lengths.append((i - start - 1, f'{name(path)}:{start + 1}'))
                    start = None
    n = sorted(length for length, _ in lengths)
    print(f'functions: {len(n)}; lines: median {statistics.median(n):.0f}, nine in ten up to {n[len(n) * 9 // 10]}, '
          f'longest {max(lengths)[0]} ({max(lengths)[1]})')
    return {'lines of half of the functions': statistics.median(n), 'lines of nine in ten functions': n[len(n) * 9 // 10],
            'lines of the longest function': max(lengths)[0]}


def structs():
    sizes = []
    for path in files('host', '.c', '.h'):
        source = bare(text(path))
        for match in re.finditer(r'^(?:typedef )?struct (\w+) \{\n(.*?)^\}', source, re.M | re.S):
            n = sum(line.count(',') + 1 for line in re.findall(r'^    ([^;{}]*);', match.group(2), re.M))
            sizes.append((n, match.group(1), name(path)))
    print('structs of most fields:')
    for n, struct, path in sorted(sizes, reverse=True)[:5]:
        print(f'  {n:3} {struct} ({path})')
    return {'fields of the largest struct': max(sizes)[0]}


def guards():
    run = subprocess.run([ROOT / 'tools/lint/door.sh'], capture_output=True, text=True)
    door = sum(text(p).count('cdz_call_enter(') for p in files('host/call', '.h'))
    outside = len(run.stdout.splitlines())
    print(f'calls of plugins outside of the door: {outside}; functions of the door: {door}')
    return {'calls of plugins outside of the door': outside, 'functions of the door': door}


def asserts():
    n = sum(len(re.findall(r'\bcdz_assert\w*\(', bare(text(p)))) for p in files('host', '.c'))
    fixed = sum(text(p).count('_Static_assert(') for w in ('host', 'kernels', 'sdk') for p in files(w, '.c', '.h'))
    print(f'asserts: {n}, static ones: {fixed}')
    return {'asserts': n, 'static asserts': fixed}


def commented(path):
    """Lines that are not empty, and those of them that have a comment."""
    lines = with_comment = 0
    inside = False
    for line in filter(str.strip, text(path).split('\n')):
        inside_before = inside
        inside = line.rfind('/*') > line.rfind('*/') or (inside and '*/' not in line)
        lines += 1
        with_comment += inside_before or '/*' in line or '//' in line
    return lines, with_comment


def comments():
    """Generated tables do not count."""
    print('comments, share of lines that have one:')
    ours = [0, 0]
    for where in ('sdk', 'host', 'kernels', 'processors', 'strategies', 'drafters', 'schedulers', 'presses', 'plugins', 'tests'):
        for suffix in ('.h', '.c'):
            counts = [commented(path) for path in files(where, suffix) if path.parent.name != 'tables']
            lines, with_comment = (sum(column) for column in zip(*counts)) if counts else (0, 0)
            if lines:
                print(f'  {where}/*{suffix}: {100 * with_comment / lines:.1f} % of {lines}')
            if where != 'tests':
                ours = [ours[0] + lines, ours[1] + with_comment]
    share = 100 * ours[1] / ours[0]
    print(f'  all of them but tests: {share:.1f} % of {ours[0]}')
    return {'percent of lines with a comment': share}


def names():
    types = collections.defaultdict(set)
    for where in ('host', 'kernels', 'sdk'):
        for path in files(where, '.c', '.h'):
            for match in re.findall(r'^(?:typedef )?(?:struct|union|enum) (cdz_\w+) \{', bare(text(path)), re.M):
                types[match].add(name(path))
    twice = {t: p for t, p in types.items() if len(p) > 1}
    print(f'type names with two meanings: {len(twice)}', *(f'{t}: {", ".join(sorted(p))}' for t, p in twice.items()),
          sep='\n  ' if twice else '')
    wrong = []
    for path in files('host', '.h'):
        guard = re.search(r'^#ifndef (\w+)', text(path), re.M)
        want = 'CDZ_HOST_' + re.sub(r'\W', '_', str(path.relative_to(ROOT / 'host'))).upper()
        if guard and guard.group(1) != want:
            wrong.append(name(path))
    print(f'include guards that are not the path: {len(wrong)}')
    stems = collections.Counter(p.name for p in files('host', '.c', '.h'))
    print(f'file names of host/ that occur twice or more: {sum(n > 1 for n in stems.values())}')
    return {'type names with two meanings': len(twice), 'include guards that are not the path': len(wrong)}


def arguments():
    many = collections.Counter()
    for where in ('host', 'kernels'):
        for path in files(where, '.c'):
            for match in re.finditer(r'^[a-z][\w *]*\b(\w+)\(([^()]*)\)\n\{', bare(text(path)), re.M):
                many[where] += match.group(2).count(',') + 1 >= 8
    print('functions of eight arguments and more: ' + ', '.join(f'{n} in {w}/' for w, n in sorted(many.items())))
    return {f'functions of eight arguments in {where}': n for where, n in many.items()}


FACTS = {f.__name__: f for f in (circles, floors, functions, arguments, structs, guards, asserts, comments, names)}


def broken(page):
    """Limits of the page, "figure | at most | 3", that the code does not keep, each as a sentence."""
    with contextlib.redirect_stdout(io.StringIO()):
        figures = {name: figure for fact in FACTS.values() for name, figure in fact().items()}
    said = []
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if not line.strip() or line.startswith('#'):
            continue
        name, kind, limit = (part.strip() for part in line.split('|'))
        if name not in figures or kind not in ('at most', 'at least'):
            said.append(f'{page}:{number}: no limit of a figure: {line}')
        elif (figures[name] > float(limit)) if kind == 'at most' else (figures[name] < float(limit)):
            said.append(f'{page}:{number}: {name}: {figures[name]:g}, expected {kind} {limit}')
    return said


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument('fact', nargs='*', help='of ' + ', '.join(FACTS) + '; or: hold FILE')
    wanted = ap.parse_args().fact
    if wanted[:1] == ['hold'] and len(wanted) == 2:
        sys.exit('\n'.join(broken(Path(wanted[1]))) or 0)
    for fact in wanted or FACTS:
        if fact not in FACTS:
            sys.exit(f"house.py: no fact '{fact}': expected " + ', '.join(FACTS))
        FACTS[fact]()


if __name__ == '__main__':
    main()
