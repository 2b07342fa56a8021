#!/usr/bin/env bash
# The generated tables are what their tools make of tools/data, byte for byte; templates' tests are the same in C and in
# Lua; the tools say what they do: run.sh. What cannot be made here, since a tool's language is missing or knows another
# Unicode, is skipped by name.
set -uo pipefail
cd "$(dirname "$0")/../../.." || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0 skipped=0

same() { # file that is kept, file that was made
    if cmp -s "$1" "$2"; then passed=$((passed + 1)); else
        echo "FAILED: $1 is not what its tool makes"
        diff "$1" "$2" | head -5
        failed=$((failed + 1))
    fi
}
skip() { # name reason
    echo "skipped $1: $2"
    skipped=$((skipped + 1))
}

export PYTHONDONTWRITEBYTECODE=1
for table in token/tables/unicode_tables token/tables/text_tables grammar/tables/property_tables; do
    name=${table##*/}
    if ! command -v python3 >/dev/null; then skip "$name" "there is no python3"; continue; fi
    python3 "tools/make_$name.py" "$work/$name.c" >/dev/null
    same "host/$table.c" "$work/$name.c"
done

if ! command -v python3 >/dev/null; then skip abi_table "there is no python3"; else
    python3 tools/make_abi_table.py "$work/abi_table.inc"
    same host/describe/abi_table.inc "$work/abi_table.inc"
fi

# Laid out by clang-format, which may break its lines; the characters are the tool's. Python's own Unicode is the source.
if ! command -v python3 >/dev/null; then skip case_table "there is no python3"; else
    tr -d ' \n' <host/template/case_table.inc >"$work/kept"
    python3 tools/make_template_case.py | tr -d ' \n' >"$work/made"
    same "$work/kept" "$work/made"
fi

# Asked of Perl's tables: properties of the characters of Unicode 12.0, which no later Perl has otherwise.
if perl -MUnicode::UCD -e 'exit(int(Unicode::UCD::UnicodeVersion()) < 12)' 2>/dev/null; then
    perl tools/make_unicode_nfc.pl >"$work/nfc.json"
    same tools/data/unicode_nfc.json "$work/nfc.json"
else
    skip unicode_nfc.json "there is no Perl whose Unicode is 12.0 or later"
fi
# Asked of Perl's tables too: of the version they were made from.
version=$(sed -n 's/.*"version":"\([0-9.]*\)".*/\1/p' tools/data/unicode_properties.json)
if [ "$(perl -MUnicode::UCD -e 'print Unicode::UCD::UnicodeVersion()' 2>/dev/null)" = "$version" ]; then
    perl tools/make_unicode_properties.pl >"$work/properties.json"
    same tools/data/unicode_properties.json "$work/properties.json"
else
    skip unicode_properties.json "there is no Perl whose Unicode is $version"
fi
for name in unicode_classes.json unicode_scripts.json; do
    skip "$name" "recorded from the reference, which is not at hand"
done

# A template is copied whole, so the C one and the Lua one of a kind each have the test of what both promise.
for kind in sdk/template/*-lua; do same "${kind%-lua}-c/test.sh" "$kind/test.sh"; done

# Asked what it does, a tool says so and makes nothing.
if ! command -v python3 >/dev/null; then skip help "there is no python3"; else
    mkdir "$work/empty"
    for tool in tools/make_*.py tools/house.py tools/lint/prefixes.py tools/docs/python-pages.py; do
        said=$(cd "$work/empty" && python3 "$OLDPWD/$tool" --help)
        if [[ $said == usage:* ]] && [ -z "$(ls -A "$work/empty")" ]; then passed=$((passed + 1)); else
            echo "FAILED: $tool --help: ${said:0:200}"
            failed=$((failed + 1))
        fi
    done
fi
echo "COUNTED $passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
