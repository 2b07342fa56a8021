#!/usr/bin/env bash
# The project's own rules, then the checkers. Prints each offence as file:line and fails if there is one.
# `run.sh quick` lets clang's analyzer give a function up after fewer steps: a quarter of its time. What it gives up early
# it may also judge wrongly, so a file that is warned of is looked at again to the end, and only that counts.
# A checker says other things by its version. Those are named here with which the tree is clean; what another one says is told,
# and fails nothing.
set -euo pipefail
cd "$(dirname "$0")/../.."
status=0
fewer_steps=""
[ "${1:-}" != quick ] || for word in -analyzer-config max-nodes=40000; do
    fewer_steps+=" --extra-arg=-Xclang --extra-arg=$word"
done

say() { printf '%s\n' "$*"; }
offend() {
    printf '%s\n' "$*"
    status=1
}

mapfile -t ours < <(git ls-files --cached --others --exclude-standard -- '*.c' '*.h' | while read -r f; do [ -f "$f" ] && echo "$f"; done)
code() { printf '%s\n' "${ours[@]}" | grep -E "$1" || true; }

for tool in clang-format cppcheck clang clang-tidy; do
    command -v $tool >/dev/null || { say "lint: there is no $tool"; exit 1; }
done

# Whether the tool has a version of the list.
looked_at() { # tool version...
    local found
    found=$("$1" --version | grep -oE '[0-9]+\.[0-9]+' | head -n 1)
    shift
    grep -qxF -e "$found" -e "${found%.*}" <(printf '%s\n' "$@")
}

# What a checker said: it fails the run, or is kept in a file.
judge() { # words of the checker, what it said, tool version...
    local words=$1 said=$2
    shift 2
    if [ -z "$said" ]; then
        return
    elif looked_at "$@"; then
        offend "$said"
    else
        printf '%s\n' "$said" >"build/$1.log"
        say "lint: $words: $("$1" --version | grep -oE '[0-9]+(\.[0-9]+)+' | head -n 1) is another version than ${*:2}: what it says is in build/$1.log and fails nothing"
    fi
}

say "lint: format"
mapfile -t formatted < <(code '.' | grep -v -e '^host/[a-z]*/tables/' -e '^tests/plugins/zoo/')
unformatted=$(clang-format --dry-run -Werror "${formatted[@]}" 2>&1 | grep -E 'error:' | cut -d: -f1 | sort | uniq -c || true)
judge format "$unformatted" clang-format 14 19

say "lint: include direction"
# folder | what its quoted or cadenza includes may begin with
check_includes() { # files-regex allowed-regex
    local bad
    bad=$(code "$1" | xargs -r grep -nHE '^[[:space:]]*#[[:space:]]*include[[:space:]]+["<]' |
        grep -E 'include[[:space:]]+("|<cadenza/)' | grep -vE "include[[:space:]]+[\"<]($2)" || true)
    [ -z "$bad" ] || offend "$bad"
}
check_includes "^(processors|strategies|drafters|schedulers|presses|plugins)/" "cadenza/|[a-z0-9_]+\.h\""
check_includes '^sdk/include/' '[a-z]+\.h"|ext/[a-z]+\.h"|\.\./\.\./plugin\.h"|\.\./plugin\.h"|\.\./[a-z]+\.h"'
check_includes '^kernels/' 'kernels\.h"|cpu/|ref/|[a-z0-9_]+\.(h|inc)"'
check_includes '^host/' 'cadenza/|kernels\.h"|backend_abi\.h"|([a-z]+/)+[a-z0-9_]+\.(h|inc)"|[a-z0-9_]+\.(h|inc)"'
# The rooms of host/: no include goes up a floor. The design page shows the same floors.
upward=$(tools/lint/floors.sh) || offend "$upward"
shown=$(diff <(tools/lint/floors.sh table) <(sed -n '/^| floor | room /,/^$/p' docs/design.md | grep .) || true)
[ -z "$shown" ] || offend "docs/design.md: its floors are not those of tools/lint/floors.sh table:" "$shown"
bad=$(code '^sdk/include/' | xargs -r grep -nHE '#include <' | grep -vE '<(stdbool|stddef|stdint)\.h>|<type_traits>' || true)
[ -z "$bad" ] || offend "$bad"
# The host names no strategy or processor by a header, and one file alone reads the environment.
bad=$(code '^(host|kernels|processors|strategies|drafters|schedulers|presses|plugins)/' | grep -vE '^host/base/environment\.c$' | xargs -r grep -nHE '\bgetenv\(' || true)
[ -z "$bad" ] || offend "$bad"

say "lint: one door into plugin code"
bad=$(tools/lint/door.sh || true)
[ -z "$bad" ] || offend "$bad"

say "lint: names"
# A type's name means one type, and an include guard is its file's path.
named=$(tools/house.py names)
grep -q '^type names with two meanings: 0$' <<<"$named" || offend "$named"
grep -q '^include guards that are not the path: 0$' <<<"$named" || offend "$named"

say "lint: prefixes"
# Of what is exported, by the objects of the build; a room's words are in prefixes.txt.
bad=$(tools/lint/prefixes.py build) || offend "$bad"

say "lint: what is cited"
bad=$(tools/lint/cited.sh) || offend "$bad"

say "lint: openings"
bad=$(code '^(host|kernels|processors|strategies|drafters|schedulers|presses|plugins|tests|bench)/.*\.c$' |
    xargs awk -f tools/lint/openings.awk)
[ -z "$bad" ] || offend "$bad"

say "lint: banned functions"
bad=$(code '^(host|kernels|processors|strategies|drafters|schedulers|presses|plugins|sdk|examples)/' |
    xargs -r grep -nHE '\b(sprintf|vsprintf|strcpy|strcat|strncat|strtok|gets|alloca|atoi|atol|atof|system|tmpnam|mktemp)[[:space:]]*\(' |
    grep -vE '^[^:]+:[0-9]+:[[:space:]]*(/?\*|//)' || true)
[ -z "$bad" ] || offend "$bad"
bad=$(code '^(host|kernels|processors|strategies|drafters|schedulers|presses|plugins)/' | grep -vE '^host/cli/|^host/base/assert\.c$' |
    xargs -r grep -nHE '(^|[^_a-zA-Z.>])(exit|abort|printf|puts|perror)[[:space:]]*\(' |
    grep -vE '^[^:]+:[0-9]+:[[:space:]]*(/?\*|//)|format\(printf' || true)
[ -z "$bad" ] || offend "$bad"

# strchr finds 0 in every set: its end. Whether a byte is one of some is cdz_byte_in's (base/ascii.h).
bad=$(code '^(host|kernels|processors|strategies|drafters|schedulers|presses|plugins)/' | xargs -r grep -nHE '\bstrchr\("' || true)
[ -z "$bad" ] || offend "$bad"

# Locks are base/mutex.h's, which knows who holds them. A baton is no lock; one of an isolated plugin has a time limit.
bad=$(code '^host/' | grep -vE '^host/base/mutex\.h$|^host/run/loop/fibre_thread\.c$|^host/isolate/' |
    xargs -r grep -nHE '\bpthread_(mutex_|cond_(timed)?wait)' || true)
[ -z "$bad" ] || offend "$bad"

# Files are written by base/write.h. The private copy of a shared object, where there are no files in memory, is the exception.
bad=$(code '^(host|kernels|processors|strategies|drafters|schedulers|presses|plugins)/' | grep -vE '^host/base/write\.c$|^host/native/native\.c$' |
    xargs -r grep -nHE '\b(fopen|freopen|fdopen)[[:space:]]*\([^;]*"[^"]*[wa+]|\b(O_CREAT|O_TMPFILE|O_TRUNC|O_APPEND)\b|\b(creat|mkstemps?|mkostemps?|tmpfile|open_memstream)[[:space:]]*\(' |
    grep -vE '^[^:]+:[0-9]+:[[:space:]]*(/?\*|//)' || true)
[ -z "$bad" ] || offend "$bad"

say "lint: cppcheck"
# A few files a run: cppcheck's own -j leaves one of two processors idle for half of the time.
cppcheck_files() { # file...
    cppcheck --quiet --std=c11 --inline-suppr --enable=warning,performance,portability \
        --suppressions-list=tools/lint/cppcheck.txt -U__clang_analyzer__ -Isdk/include -Ihost -Ikernels "$@" 2>&1
}
export -f cppcheck_files
judge cppcheck "$(code '^(host|kernels|processors|strategies|drafters|schedulers|presses|plugins)/.*\.c$' |
    xargs -P "$(nproc)" -n 4 bash -c 'cppcheck_files "$@"' bash || true)" cppcheck 2.10

# Of files that clang-tidy does not look at.
say "lint: clang's warnings"
judge "clang's warnings" "$(python3 tools/lint/clang_warnings.py build $(code '^(kernels|tests)/.*\.c$') 2>&1 || true)" clang 14 19

say "lint: clang-tidy"
mapfile -t tidied < <(code '^(host|processors|strategies|drafters|schedulers|presses|plugins)/.*\.c$')
# A file a run: with several, what was seen of one file's va_list is held against the next.
tidy() { # file
    local said
    said=$(clang-tidy -p build --quiet $fewer_steps "$1" 2>/dev/null || true)
    if [ -n "$fewer_steps" ] && [ -n "$said" ]; then said=$(clang-tidy -p build --quiet "$1" 2>/dev/null || true); fi
    [ -z "$said" ] || printf '%s\n' "$said"
}
export fewer_steps
export -f tidy
printf '%s\n' "${tidied[@]}" | xargs -P "$(nproc)" -I{} bash -c 'tidy {}' >build/tidy.log
judge clang-tidy "$(grep -E 'warning:|error:' build/tidy.log | sort -u || true)" clang-tidy 14

[ $status -eq 0 ] && say "lint: clean"
exit $status
