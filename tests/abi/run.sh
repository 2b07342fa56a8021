#!/usr/bin/env bash
# Compares the layout of the public ABI with the recorded one: every struct's size, every field's offset and size, every
# enumerator's value, as the C compiler sees them.
#
#   run.sh            compare with layout-MAJOR.MINOR.txt of the version the headers state
#   run.sh --record   write that file
#
# A difference means that plugins built before and hosts built after disagree. Of a version that nobody has yet, the record
# is made anew. A released 0.x asks for a higher CDZ_ABI_MINOR and a record of its own; from 1.0 on a record may only gain
# lines, and the old ones stay in this folder.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
sdk=$here/../../sdk/include
cc=${CC:-cc}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

includes() {
    for header in "$sdk"/cadenza/*.h "$sdk"/cadenza/ext/*.h; do
        [ "$(basename "$header")" = cadenza.h ] || printf '#include "%s"\n' "${header#"$sdk/"}"
    done
}

# Our own structs and enums in preprocessed text, as statements that print them.
statements() {
    awk '
    { text = text $0 "\n" }
    function fields(name, body,    n, i, part, k, m, piece, declared) {
        printf "    LAYOUT_STRUCT(%s);\n", name
        gsub(/__attribute__ *\(\([^;]*\)\)/, "", body)
        n = split(body, part, ";")
        for (i = 1; i <= n; i++) {
            gsub(/\[[^]]*\]/, "", part[i])
            if (match(part[i], /\( *\* *(const *)?[a-z_0-9]+ *\)/)) {
                declared = substr(part[i], RSTART + 1, RLENGTH - 2)
                gsub(/const/, "", declared)
                gsub(/[ *]/, "", declared)
                printf "    LAYOUT_FIELD(%s, %s);\n", name, declared
                continue
            }
            m = split(part[i], piece, ",")
            for (k = 1; k <= m; k++)
                if (match(piece[k], /[A-Za-z_0-9]+[ \n]*$/)) {
                    declared = substr(piece[k], RSTART, RLENGTH)
                    gsub(/[ \n]/, "", declared)
                    printf "    LAYOUT_FIELD(%s, %s);\n", name, declared
                }
        }
    }
    function values(body,    n, i, part) {
        n = split(body, part, ",")
        for (i = 1; i <= n; i++) {
            sub(/=.*/, "", part[i])
            gsub(/[ \n]/, "", part[i])
            if (part[i] != "") printf "    LAYOUT_VALUE(%s);\n", part[i]
        }
    }
    END {
        while (match(text, /(struct|enum)[ \n]+cdz_[a-z_0-9]+[ \n]*\{/)) {
            head = substr(text, RSTART, RLENGTH)
            text = substr(text, RSTART + RLENGTH)
            end = index(text, "}")
            body = substr(text, 1, end - 1)
            text = substr(text, end + 1)
            kind = head ~ /^struct/ ? "struct" : "enum"
            sub(/^(struct|enum)[ \n]+/, "", head)
            sub(/[ \n]*\{$/, "", head)
            if (kind == "struct") fields(head, body)
            else values(body)
        }
    }'
}

includes > "$work/all.c"
"$cc" -std=c17 -E -P -I"$sdk" "$work/all.c" > "$work/all.i"
{
    includes
    cat <<'EOF'
#include <stdio.h>
#define LAYOUT_STRUCT(T)   printf("struct %s %zu\n", #T, sizeof(struct T))
#define LAYOUT_FIELD(T, F) printf("  %s.%s at %zu, %zu\n", #T, #F, offsetof(struct T, F), sizeof(((struct T *)0)->F))
#define LAYOUT_VALUE(V)    printf("%s = %lld\n", #V, (long long)(V))
int main(void)
{
EOF
    statements < "$work/all.i"
    printf '    return 0;\n}\n'
} > "$work/layout.c"
"$cc" -std=c17 -I"$sdk" "$work/layout.c" -o "$work/layout"
"$work/layout" > "$work/layout.txt"

version=$(printf '#include "cadenza/plugin.h"\nCDZ_ABI_MAJOR.CDZ_ABI_MINOR\n' | "$cc" -E -P -I"$sdk" -xc - | tail -1 | tr -d ' ')
record=$here/layout-$version.txt
if [ "${1:-}" = --record ]; then
    cp "$work/layout.txt" "$record"
    echo "recorded $(wc -l < "$record") lines as layout-$version.txt"
    exit
fi
[ -f "$record" ] || { echo "FAILED: there is no tests/abi/layout-$version.txt: tests/abi/run.sh --record writes it"; exit 1; }
if [ "$(uname -m)" != x86_64 ]; then
    echo "SKIPPED abi layout: recorded for x86_64"
    echo "COUNTED 0 passed, 0 failed, 1 skipped"
    exit
fi
if ! diff "$record" "$work/layout.txt"; then
    echo "FAILED: the layout is no longer that of ABI $version (< recorded, > now)"
    echo "COUNTED 0 passed, 1 failed, 0 skipped"
    exit 1
fi
echo "COUNTED $(wc -l < "$record") passed, 0 failed, 0 skipped"
