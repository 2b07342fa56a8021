#!/usr/bin/env bash
# Help, manual and completions say the same options, since they are made of the same tables: tables.sh BUILD.
set -uo pipefail
build=$(cd "$1" && pwd)
[ -x "$build/bin/cadenza" ] || { echo "FAILED: there is no program $build/bin/cadenza: build it first"; exit 1; }
export PATH="$build/bin:$PATH" CADENZA_PLUGIN_DIR="${CADENZA_PLUGIN_DIR:-$build/lib/cadenza}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0
good() { passed=$((passed + 1)); }
bad() {
    printf 'FAILED %s\n' "$*"
    failed=$((failed + 1))
}
same() { if diff "$2" "$3" >"$work/diff"; then good; else bad "$1: $(head -5 "$work/diff")"; fi; }

pages=(run chat serve lua explain plugin "plugin test" pull list model "model convert" "model quantize" tokenize template grammar config detect steer score
    bench "bench serve" parity completion manual version)

# The options that a text names at the head of a row, one a line.
of_help() { grep -E '^ +(-[a-z], )?--?[a-z]' | sed -nE 's/^ +((-[a-z]), )?(--?[a-zA-Z-]+).*/\2 \3/p' | tr ' ' '\n' | grep . | sort -u; }
of_manual() { sed 's/\\-/-/g' | sed -nE 's/^\.B ((-[a-z]), )?(--?[a-zA-Z-]+).*/\2 \3/p' | tr ' ' '\n' | grep . | sort -u; }
of_bash() { grep -F "    '$1') words='" | sed "s/.*words='//; s/' ;;//" | tr ' ' '\n' | grep '^-' | sort -u; }
of_zsh() { # page: the rows between its case and the end of it
    awk -v page="    '$1') all=(" '$0 == page { on = 1; next } on && /^ *\) ;;/ { on = 0 } on' |
        sed -nE "s/^ +'(--?[a-zA-Z-]+):.*/\1/p" | sort -u
}
of_fish() {
    local seen="__fish_seen_subcommand_from ${1%% *}"
    [ "$1" = "${1#* }" ] || seen+="; and __fish_seen_subcommand_from ${1#* }"
    grep -F "complete -c cadenza -n '$seen' -l" | sed -nE "s/.* -l ([a-zA-Z-]+)( -s ([a-z]))?.*/--\1 -\3/p" | tr ' ' '\n' |
        grep -E '^-+[a-z]' | sort -u
}
# Letters that only another program has for an option are in help and manual; shells complete the name.
without_foreign() { grep -vxF -e -n -e -r -e -t -e -i; }

cadenza completion bash >"$work/bash"
cadenza completion zsh >"$work/zsh"
cadenza completion fish >"$work/fish"
for page in "${pages[@]}"; do
    cadenza $page --help all | sed '/^Examples:/,$d; /^In the conversation/,$d' | of_help >"$work/help"
    cadenza manual $page | sed '/^\.SH "EXAMPLES"/,$d' | of_manual >"$work/manual"
    same "$page: help and manual" "$work/help" "$work/manual"
    without_foreign <"$work/help" >"$work/names"
    for shell in bash zsh fish; do
        of_$shell "$page" <"$work/$shell" | without_foreign >"$work/of_$shell"
        same "$page: help and $shell" "$work/names" "$work/of_$shell"
    done
    [ -s "$work/help" ] && good || bad "$page: no options were found"
    lines=$(cadenza $page --help | wc -l) columns=$(cadenza $page --help | wc -L)
    [ "$lines" -le 30 ] && [ "$columns" -le 100 ] && good || bad "$page: its help is $lines lines of $columns columns"
    columns=$(cadenza $page --help all | wc -L)
    [ "$columns" -le 100 ] && good || bad "$page: all of its help has $columns columns"
done
printf '%s\n' "${pages[@]}" | sort >"$work/pages"
cadenza manual | sed 's/\\-/-/g' | sed -n '/COMMANDS/,/ENVIRONMENT/s/^\.B //p' | sort >"$work/listed"
same "the pages of the manual" "$work/pages" "$work/listed"

# every generation parameter is an option: the JSON Schema of pipelines lists them
cadenza explain --schema | python3 -c 'import json, sys; print(*json.load(sys.stdin)["properties"]["generation"]["properties"], sep="\n")' 2>/dev/null |
    tr _ - | sed 's/^/--/' | sort >"$work/parameters"
cadenza run --help all | of_help >"$work/help"
if [ -s "$work/parameters" ]; then
    missing=$(comm -23 "$work/parameters" "$work/help" | tr '\n' ' ')
    [ -z "$missing" ] && good || bad "parameters that are no options: $missing"
fi

# bash takes its completions, and they complete
complete_line() { # words...: what Tab offers for the last
    bash -c 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _cadenza; printf "%s\n" "${COMPREPLY[@]}"' _ "$work/bash" "$@"
}
[ "$(complete_line cadenza ru)" = run ] && good || bad "bash: cadenza ru<Tab>"
[ "$(complete_line cadenza run --temp)" = "$(printf '%s\n' --temperature --temp)" ] && good || bad "bash: run --temp<Tab>: $(complete_line cadenza run --temp | tr '\n' ' ')"
[ "$(complete_line cadenza plugin test --ju)" = --junit ] && good || bad "bash: plugin test --ju<Tab>"
[ "$(complete_line cadenza plugin inf)" = info ] && good || bad "bash: plugin inf<Tab>"
# for every page Tab offers what help names, of a whole table and of one beginning
for page in "${pages[@]}"; do
    cadenza $page --help all | sed '/^Examples:/,$d; /^In the conversation/,$d' | of_help | without_foreign | grep '^--' >"$work/names"
    complete_line cadenza $page -- | sort -u >"$work/offered"
    same "bash: $page --<Tab>" "$work/names" "$work/offered"
    grep '^--h' "$work/names" >"$work/names_h"
    complete_line cadenza $page --h | sort -u >"$work/offered"
    same "bash: $page --h<Tab>" "$work/names_h" "$work/offered"
done
[ "$(complete_line cadenza '' | sort | tr '\n' ' ')" = "$(printf '%s\n' "${pages[@]}" help | grep -v ' ' | sort | tr '\n' ' ')" ] && good || bad "bash: cadenza <Tab>"
[ -z "$(complete_line cadenza run --no-such)" ] && good || bad "bash: run --no-such<Tab> offers something"
[ -z "$(complete_line cadenza nothing --)" ] && good || bad "bash: nothing --<Tab> offers something"
if command -v fish >/dev/null; then # fish tells what it would offer; from 4 on also what has the letters elsewhere
    offered=$(HOME=$work fish -c "source $work/fish; complete -C 'cadenza run --temp'" 2>/dev/null | cut -f1 | grep '^--temp' | sort | tr '\n' ' ')
    [ "$offered" = '--temp --temperature ' ] && good || bad "fish: run --temp<Tab>: $offered"
fi
for shell in zsh fish; do
    command -v $shell >/dev/null || continue
    $shell -n "$work/$shell" && good || bad "$shell does not read its completions"
done
if command -v groff >/dev/null; then
    for page in "${pages[@]}"; do
        warned=$(cadenza manual $page | groff -man -Tutf8 -ww 2>&1 >/dev/null | head -3)
        [ -z "$warned" ] && good || bad "the manual of $page: $warned"
    done
fi

echo "COUNTED $passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
