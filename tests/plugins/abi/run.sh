#!/usr/bin/env bash
# Compares the layout of the public ABI with the recorded one: every struct's size, every field's offset and size, every
# enumerator's value, as the C compiler sees them.
#
#   run.sh            compare with layout-MAJOR.MINOR.txt of the version the headers state
#   run.sh --record   write that file
#
# A difference means that plugins built before and hosts built after disagree. Of a version that nobody has yet, the record
# is made anew. What a released minor lacks asks for a higher CDZ_ABI_MINOR and a record of its own; the older records of the
# same major stay in this folder, and the headers must still hold every line of theirs: only structs that begin with their
# size, or with cdz_plugin_base, may have grown.
#
# Types of functions are compared by abidiff, where it is installed, with abi-MAJOR.MINOR.xml.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
sdk=$here/../../../sdk/include
cc=${CC:-cc}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

includes() {
    for header in "$sdk"/cadenza/*.h "$sdk"/cadenza/ext/*.h; do
        [ "$(basename "$header")" = cadenza.h ] || printf '#include "%s"\n' "${header#"$sdk/"}"
    done
}

# The names are read in the headers by the tool that makes the host's table.
python3 "$here/../../../tools/make_abi_table.py" "$work/table.inc"
{
    includes
    cat <<'EOF'
#include <stdio.h>
#define ABI_STRUCT(T)     printf("struct %s %zu\n", #T, sizeof(struct T))
#define ABI_FIELD(T, F, D) printf("  %s.%s at %zu, %zu\n", #T, #F, offsetof(struct T, F), sizeof(((struct T *)0)->F))
#define ABI_VALUE(V)      printf("%s = %lld\n", #V, (long long)(V))
int main(void)
{
EOF
    sed '/^ABI_ENUM/d; s/^ABI.*/    &;/' "$work/table.inc"
    printf '    return 0;\n}\n'
} > "$work/layout.c"
"$cc" -std=c17 -I"$sdk" "$work/layout.c" -o "$work/layout"
"$work/layout" > "$work/layout.txt"

# Names the lines of an older record that the newer layout breaks.
broken() { # older, newer
    awk '
    NR == FNR {
        seen[$0] = 1
        if ($1 == "struct") size[$2] = $3
        if ($2 == "at" && $3 == "0," && split($1, part, ".") == 2 && (part[2] == "size" || part[2] == "base"))
            grows[part[1]] = 1
        next
    }
    $0 in seen { next }
    $1 == "struct" && grows[$2] && size[$2] > $3 { next }
    { print "  " $0 }' "$2" "$1"
}

# broken() at work: one struct may grow, one may not, a field moved, a value changed.
printf 'A = 1\nstruct cdz_a 8\n  cdz_a.size at 0, 4\nstruct cdz_b 8\n  cdz_b.x at 0, 4\n' > "$work/older"
printf 'A = 2\nstruct cdz_a 16\n  cdz_a.size at 0, 4\nstruct cdz_b 16\n  cdz_b.x at 4, 4\n' > "$work/newer"
[ "$(broken "$work/older" "$work/newer" | wc -l)" = 3 ] || { echo "FAILED: broken() no longer sees what it should"; exit 1; }

version=$(printf '#include "cadenza/plugin.h"\nCDZ_ABI_MAJOR.CDZ_ABI_MINOR\n' | "$cc" -E -P -I"$sdk" -xc - | tail -1 | tr -d ' ')
record=$here/layout-$version.txt
types=$here/abi-$version.xml

# A shared object whose one function takes every struct of a layout, so that its debug information holds them all.
surface() { # layout
    local takes
    takes=$(awk '$1 == "struct" { printf "%sstruct %s *a%d", n++ ? ", " : "", $2, n }' "$1")
    {
        includes
        printf 'void cdz_surface(%s);\n' "$takes"
        printf '__attribute__((visibility("default"))) void cdz_surface(%s) {\n' "$takes"
        awk '$1 == "struct" { printf "    (void)a%d;\n", ++n }' "$1"
        printf '}\n'
    } > "$work/surface.c"
    gcc -std=c17 -g -O0 -shared -fPIC -I"$sdk" "$work/surface.c" -o "$work/surface.so"
}

if [ "${1:-}" = --record ]; then
    cp "$work/layout.txt" "$record"
    surface "$record"
    echo "recorded $(wc -l < "$record") lines as layout-$version.txt"
    command -v abidw > /dev/null || { echo "abidw (package abigail-tools) is missing: no abi-$version.xml"; exit 1; }
    abidw --no-corpus-path --no-comp-dir-path --no-show-locs "$work/surface.so" | sed "s#path='$work/#path='#" > "$types"
    echo "recorded the types as abi-$version.xml"
    exit
fi
[ -f "$record" ] || { echo "FAILED: there is no tests/plugins/abi/layout-$version.txt: tests/plugins/abi/run.sh --record writes it"; exit 1; }
if [ "$(uname -m)" != x86_64 ]; then
    echo "SKIPPED abi layout: recorded for x86_64"
    echo "COUNTED 0 passed, 0 failed, 1 skipped"
    exit
fi
passed=$(wc -l < "$record") failed=0 skipped=0
if ! diff "$record" "$work/layout.txt"; then
    echo "FAILED: the layout is no longer that of ABI $version (< recorded, > now)"
    failed=$((failed + 1))
fi
for older in "$here/layout-${version%.*}".*.txt; do
    lost=$(broken "$older" "$work/layout.txt")
    [ -z "$lost" ] && continue
    printf 'FAILED: %s promised what no longer holds:\n%s\n' "$(basename "$older")" "$lost"
    failed=$((failed + 1))
done
if command -v abidiff > /dev/null; then
    surface "$record"
    if abidiff --no-show-locs "$types" "$work/surface.so" > "$work/abidiff"; then passed=$((passed + 1)); else
        sed -n '1,40p' "$work/abidiff"
        echo "FAILED: the types are no longer those of ABI $version"
        failed=$((failed + 1))
    fi
else
    echo "SKIPPED abi types: abidiff is not installed (package abigail-tools)"
    skipped=1
fi
echo "COUNTED $passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
