#!/usr/bin/env bash
# Files that are cited and are not there: pages in sources (docs/NAME.md), files of the tree in comments and pages
# (run/pass/kv.h in host/, host/run/pass/kv.h anywhere), sources by their bare names in comments and in pages (`kv.c`), names
# that a page has beside the source that they are in (`keep` in `host/run/loop/draft.c`, `keep` (`run/loop/draft.c`)), and
# names of ours that a page has (`cdz_seq_resumes`) and no source, and commands (`cadenza serve`) that
# the program has not. Prints file:line: what, and fails if there is one.
#   cited.sh            looks at the whole tree
#   cited.sh FILE...    at these
set -euo pipefail
cd "$(dirname "$0")/../.."
if [ $# -eq 0 ]; then
    mapfile -t files < <(git ls-files --cached --others --exclude-standard -- '*.c' '*.h' '*.inc' '*.cu' '*.py' '*.sh' '*.lua' \
        '*.ini' '*.cmake' '*CMakeLists.txt' 'docs/*.md' CONTRIBUTING.md README.md SECURITY.md | grep -vE '^(tools/lint/cited.sh|tests/tools/cited/run.sh)$')
else
    files=("$@")
fi
tops=$(git ls-tree -d --name-only HEAD | grep -v '^\.' | paste -sd'|')
rooms=$(git ls-tree -d --name-only HEAD:host | paste -sd'|')
there() { git ls-files --cached --others --exclude-standard; } # more than an argument may hold

status=0

# file:line:path of each path that begins with a folder of the tree, or with a room of host/.
for file in "${files[@]}"; do [ -f "$file" ] && echo "$file"; done |
    { xargs grep -noHP "(?<![\w./\$}-])(?:(?:$tops)/|(?:$rooms)/)[\w./-]*\w\.(?:md|c|h|sh|py|lua|awk|txt|cmake|inc)\b(?![\w*/{.-])" || true; } |
    awk -F: '
        FNR == NR { is[$0] = 1; next }
        {
            at = $3
            beside = $1; sub(/[^\/]*$/, "", beside)
            if (at in is || ("host/" at) in is || (beside at) in is || ("sdk/include/cadenza/" at) in is) next
            if (("tests/" at) in is || ("tests/unit/" at) in is || ("kernels/" at) in is) next
            if ((at ".in") in is) next
            print $1 ":" $2 ": cites " at ", which is not there"
            bad = 1
        }
        END { exit bad }' <(there) - || status=1

# Bare names in comments of C ("see loop.c"): a file of that name is somewhere. Lua's and cmocka's are of another project.
for file in "${files[@]}"; do [ -f "$file" ] && echo "$file"; done | { grep -E '\.[ch]$' || true; } |
    { xargs -r grep -nHP '(?:^ ?\*|/\*|//).*\.[ch]\b' || true; } |
    awk '
        FNR == NR { sub(/.*\//, ""); is[$0] = 1; next }
        {
            match($0, /^[^:]*:[0-9]+:/)
            where = substr($0, 1, RLENGTH); rest = substr($0, RLENGTH + 1)
            if (rest ~ /^#/) next
            sub(/^.*\/\*|^.*\/\/|^ ?\*/, "", rest)
            while (match(rest, /[A-Za-z0-9_.\/<-]+\.[ch]($|[^A-Za-z0-9_"\/(])/)) {
                name = substr(rest, RSTART, RLENGTH); rest = substr(rest, RSTART + RLENGTH)
                sub(/[^A-Za-z0-9_]$/, "", name)
                if (name ~ /[\/<]|\..*\./ || name ~ /^(l[a-z]+\.c|cmocka\.h)$/ || name in is) continue
                print where " cites " name ", which is not there"
                bad = 1
            }
        }
        END { exit bad }' <(there) - || status=1

# In pages: `NAME` in `FILE`, `NAME` (`FILE`, `NAME` and `OTHER` in `FILE`, and columns | `NAME` | `FILE` | of a table.
while IFS=: read -r file line cell; do
    source=$(grep -oP '`\K[\w/.-]+(?=`$)' <<<"$cell")
    [ -f "$source" ] || source=host/$source
    [ -f "$source" ] || continue # the paths are looked at above
    while read -r name; do
        grep -qw -- "$name" "$source" && continue
        printf '%s:%s: cites %s in %s, which has no such name\n' "$file" "$line" "$name" "$source"
        status=1
    done < <(grep -oP '`\K\w+(?=(\[\])?`)' <<<"$cell")
done < <(for file in "${files[@]}"; do [ -f "$file" ] && echo "$file"; done | grep '\.md$' |
    xargs -r grep -noHP '(?:`\w+(?:\[\])?`(?:,| and)? )*`\w+(?:\[\])?` (?:in |\| |\()`[\w/-]+/[\w-]+\.[ch]`' || true)

pages=$(printf '%s\n' "${files[@]}" | grep -c '\.md$' || true)
# In pages: `cdz_NAME` without saying where, and `FILE.c`. Stars and dots stand for many.
for file in "${files[@]}"; do [ -f "$file" ] && echo "$file"; done | { grep '\.md$' || true; } |
    { xargs -r grep -noHP '`(?:cdz_\w+(?!\w|\*|…|\.\.)|[a-z0-9_]+\.[ch](?=`))' || true; } |
    awk -F: '
        FNR == NR && /\// { sub(/.*\//, "") }
        FNR == NR { is[$0] = 1; next }
        {
            name = substr($3, 2)
            if (name in is || name ~ /^my_/ || name ~ /_$/) next
            print $1 ":" $2 ": cites " name ", which is not there"
            bad = 1
        }
        END { exit bad }' <(there; [ "$pages" = 0 ] || git grep -ohwE 'cdz_\w+' -- '*.c' '*.h' '*.inc' '*.cu' '*.hpp' '*.py' '*.lua' | sort -u) - || status=1

# In pages: `cadenza COMMAND`, as host/cli/main.c lists them.
for file in "${files[@]}"; do [ -f "$file" ] && echo "$file"; done | { grep '\.md$' || true; } |
    { xargs -r grep -noHP '`cadenza \K[a-z][a-z-]*' || true; } |
    awk -F: '
        FNR == NR { is[$0] = 1; next }
        $3 in is || $3 == "help" { next }
        { print $1 ":" $2 ": cites cadenza " $3 ", which is no command"; bad = 1 }
        END { exit bad }' <(grep -oP '&cdz_page_\K\w+' host/cli/main.c) - || status=1
exit $status
