#!/usr/bin/env python3
"""What each room of host/ and kernels/ exports begins with one of its own words: prefixes.py BUILD [list].

tools/lint/prefixes.txt has the words; the symbols are those of the objects in BUILD, by nm. Names each symbol that begins
otherwise, each word that no symbol of its room begins with, and each word of two rooms that the list does not own up to."""
import argparse
import collections
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
# Programs, and the C library's functions that a kit's process has of its own.
NOT_OURS = {'main', 'malloc', 'calloc', 'realloc', 'free', 'aligned_alloc', 'posix_memalign', 'clock_gettime',
            'gettimeofday', 'time'}


def word_of(symbol):
    return symbol.split('_')[1] if symbol.startswith('cdz_') else symbol.split('_')[0] + '_'


def read_words():
    rooms, shared = {}, set()
    for line in (ROOT / 'tools/lint/prefixes.txt').read_text().splitlines():
        if line.startswith('shared:'):
            word, _, why = line[7:].partition('|')
            if not why.strip():
                sys.exit(f'tools/lint/prefixes.txt: "{word.strip()}" is shared without a reason')
            shared.add(word.strip())
        elif line.strip() and not line.startswith('#'):
            room, words = line.split('|')
            rooms.setdefault(room.strip(), set()).update(words.split())
    return rooms, shared


def read_symbols(build):
    found = collections.defaultdict(lambda: collections.defaultdict(set))
    objects = [o for top in ('host', 'kernels') for o in (build / top).glob('**/CMakeFiles/*.dir/**/*.o')]
    for path in objects:
        parts = path.relative_to(build).parts
        at = parts.index('CMakeFiles')
        top, inside = parts[0], parts[1:at] + parts[at + 2:-1]
        source = ROOT / top / pathlib.Path(*inside) / path.name[:-2]
        if not source.exists():  # of a file that has moved since
            continue
        room = top if top == 'kernels' else '/'.join(inside[:2 if inside[0] == 'run' else 1])
        out = subprocess.run(['nm', '-g', '--defined-only', path], capture_output=True, text=True, check=True).stdout
        for fields in (line.split() for line in out.splitlines()):
            if len(fields) == 3 and fields[1] in 'TDBRVC' and fields[2] not in NOT_OURS:
                found[room][word_of(fields[2])].add(f'{source.relative_to(ROOT)}: {fields[2]}')
    return found


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument('build', type=pathlib.Path, help='a build folder')
    ap.add_argument('list', nargs='?', choices=['list'], help='prints the words as they are now')
    asked = ap.parse_args()
    found = read_symbols(asked.build.resolve())
    if asked.list:
        for room in sorted(found):
            print(room, '|', *sorted(found[room]))
        return 0
    rooms, shared = read_words()
    bad = [] if found else [f'{asked.build}: no objects of host/']
    for room, words in found.items():
        for word in sorted(set(words) - rooms.get(room, set())):
            bad += [f'{where}: {room}/ has no word "{word}" in tools/lint/prefixes.txt' for where in sorted(words[word])]
    for room, words in rooms.items():
        bad += [f'tools/lint/prefixes.txt: nothing in {room}/ begins with "{word}"'
                for word in sorted(words - set(found.get(room, ())))]
    count = collections.Counter(word for words in rooms.values() for word in words)
    bad += [f'tools/lint/prefixes.txt: "{word}" is of two rooms' for word in sorted(count) if count[word] > 1 and word not in shared]
    bad += [f'tools/lint/prefixes.txt: "{word}" is no longer shared' for word in sorted(shared) if count[word] < 2]
    print('\n'.join(bad), end='\n' if bad else '')
    return bool(bad)


sys.exit(main())
