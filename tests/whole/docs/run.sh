#!/usr/bin/env bash
# Runs the code blocks of the documentation: run.sh BUILD PAGE...
#
# Blocks of one page share an empty folder, in order. The word after the fence says what to do:
#   ```cpp NAME, rust NAME, zig NAME, go NAME, h NAME   write the file; a console block compiles it
#   ```c NAME, lua NAME, ini NAME, json NAME, rules NAME   write the file; a .c that exports a plugin is compiled to NAME.so,
#                                              one with main() to a program
#   ```console                                 run what follows each "$ "; a status other than 0 is an error
#   ```console exact                           and the output must be the one shown
#   ```console fails                           each command must fail
#   ```console if PROGRAM                      run where the program is; elsewhere skipped, by name
#   ```sh NAME.sh                              write the file
#   ```sh dev                                  commands of ./dev: must be in its help, are not run
#   ```python                                  run by the test `python` (python/tests/test_docs.py)
#   ```text                                    not code
# With CADENZA_DOC_RECORD=FILE, what exact blocks give is written there instead of compared: to renew them.
# Any other block is an error, so that no code in the docs goes untested.
set -uo pipefail
build=$(cd "$1" && pwd)
root=$(cd "$(dirname "$0")/../../.." && pwd)
[ -x "$build/bin/cadenza" ] || { echo "FAILED: there is no program $build/bin/cadenza: build it first"; exit 1; }
shift
export PATH="$build/bin:$PATH" CADENZA_PLUGIN_DIR="${CADENZA_PLUGIN_DIR:-$build/lib/cadenza}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# no plugins or locks of whoever runs this
unset CADENZA_PLUGIN_PATH XDG_CONFIG_HOME XDG_DATA_HOME
# a Rust of rustup's lies in the real one
if [ -d "$HOME/.rustup" ]; then export RUSTUP_HOME="${RUSTUP_HOME:-$HOME/.rustup}"; fi
export HOME="$work/home"
mkdir "$HOME"
# pkg-config as from an installed prefix, when none is given
if [ -z "${PKG_CONFIG_PATH:-}" ]; then
    mkdir "$work/pkgconfig"
    sed "s|^prefix=.*|prefix=$root/sdk|" "$build/pkgconfig/cadenza-sdk.pc" >"$work/pkgconfig/cadenza-sdk.pc"
    sed "s|^prefix=.*|prefix=$root/sdk|; s|^libdir=.*|libdir=$build/lib|" "$build/pkgconfig/cadenza.pc" |
        grep -v '^Requires' >"$work/pkgconfig/cadenza.pc"
    export PKG_CONFIG_PATH=$work/pkgconfig
fi
passed=0 failed=0 skipped=0
extra_cflags=${CADENZA_DOC_CFLAGS:-}
cc=${CADENZA_DOC_CC:-cc}

# AddressSanitizer says once per process that it does not fully support swapcontext; we tell it of every switch
# ourselves (host/run/loop/fibre_ucontext.c), so that line is no part of what the program says.
without_note() { sed "/^==[0-9]*==WARNING: ASan doesn't fully support makecontext/d"; }

bad() {
    printf 'FAILED %s: %s\n' "$where" "$1"
    failed=$((failed + 1))
}

# block bodies as work/N.body, their fence words as work/N.info
split() {
    awk -v out="$work" '
        /^```/ && !inside { inside = 1; n++; info = substr($0, 4); file = out "/" n ".body"; printf "%s", "" > file
                            print info > (out "/" n ".info"); print NR > (out "/" n ".line"); close(out "/" n ".info"); next }
        /^```[[:space:]]*$/ && inside { inside = 0; close(file); next }
        inside { print > file }
        END { print n + 0 }' "$1"
}

compile() { # file
    local flags="-std=c17 -Wall -Wextra -Wpedantic -Wshadow -Werror -I$root/sdk/include $extra_cflags"
    if grep -q CDZ_EXPORT_PLUGINS "$1"; then
        "$cc" $flags -shared -fPIC "$1" -o "${1%.c}.so" -lm
    elif grep -q 'int main' "$1"; then
        "$cc" $flags "$1" -o "${1%.c}" -L"$build/lib" -Wl,-rpath,"$build/lib" -lcadenza
    else
        "$cc" $flags -fsyntax-only "$1"
    fi
}

# Each "$ command" of a console block, with the output shown after it.
console() { # body mode
    local command="" expected="" line status
    run_command() {
        [ -z "$command" ] && return
        local output
        output=$(bash -c "$command" 2>&1 </dev/null)
        status=$?
        output=$(without_note <<<"$output")
        if [ -n "${CADENZA_DOC_RECORD:-}" ] && [ "$2" = exact ]; then
            printf '$ %s\n%s\n' "$command" "$output" >>"$CADENZA_DOC_RECORD"
            return 0
        fi
        if [ "$2" = fails ]; then
            [ $status -ne 0 ] || { bad "succeeded, should fail: $command"; return 1; }
        elif [ $status -ne 0 ]; then
            bad "status $status: $command: $output"
            return 1
        fi
        if [ "$2" = exact ] && [ "$output" != "$expected" ]; then
            bad "$command"
            diff <(printf '%s\n' "$expected") <(printf '%s\n' "$output")
            return 1
        fi
    }
    while IFS= read -r line || [ -n "$line" ]; do
        case $line in
        '$ '*)
            run_command "$1" "$2" || return 1
            command=${line#\$ }
            expected=""
            ;;
        '> '*) command+=$'\n'${line#> } ;;
        *) expected+=${expected:+$'\n'}$line ;;
        esac
    done <"$1"
    run_command "$1" "$2"
}

for page in "$@"; do
    page=$(realpath --relative-to="$root" "$page")
    cd "$root" || exit 1
    rm -f "$work"/*.body "$work"/*.info "$work"/*.line
    n=$(split "$page")
    here=$work/$(basename "$page" .md)
    mkdir -p "$here"
    ln -sfn "$root" "$here/cadenza-source"
    for ((i = 1; i <= n; i++)); do
        read -r lang name <"$work/$i.info" || true
        where="$page:$(cat "$work/$i.line")"
        before=$failed
        cd "$here" || exit 1
        case "$lang ${name:-}" in
        'cpp '?* | 'rust '?* | 'zig '?* | 'go '?* | 'h '?*)
            mkdir -p "$(dirname "$name")"
            cp "$work/$i.body" "$name"
            ;;
        'c '?* | 'lua '?* | 'ini '?* | 'json '?* | 'rules '?* | 'sh '?*.sh)
            mkdir -p "$(dirname "$name")"
            cp "$work/$i.body" "$name"
            case $name in *.c) compile "$name" 2>"$work/log" || bad "$(cat "$work/log")" ;; esac
            ;;
        'console ' | 'console exact' | 'console fails') console "$work/$i.body" "${name:-}" ;;
        'console if '?*)
            if { "${name#if }" --version || "${name#if }" version; } >/dev/null 2>&1; then
                console "$work/$i.body" ""
            else
                echo "skipped $where: there is no ${name#if }"
                skipped=$((skipped + 1))
                continue
            fi
            ;;
        'sh dev')
            while read -r tool command _; do
                [ "$tool" = ./dev ] && "$root/dev" help | grep -qE "^  $command\b|, $command " || bad "no such command: $tool $command"
            done <"$work/$i.body"
            ;;
        'text ' | 'python ') : ;;
        *) bad "a block of kind '$lang ${name:-}' would go untested" ;;
        esac
        [ "$failed" -eq "$before" ] && passed=$((passed + 1))
        cd "$root" || exit 1
        unset name
    done
done
echo "COUNTED $passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
