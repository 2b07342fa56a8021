#!/bin/sh
# test.sh - what this package promises, tried with the model that comes with cadenza.
#   sh test.sh [FOLDER]     FOLDER: the built package, when it is not the folder this file is in
set -eu
here=$(dirname "$0")
package=${1:-$here}
cadenza=${CADENZA:-cadenza}
id=$(sed -n 's/^id *= *//p' "$package/plugin.ini")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The token ids of an answer, separated by commas: ids OPTION...
ids() {
    "$cadenza" run -p 'river (noun): a' -s do_sample=no -s max_new_tokens=12 --json "$@" | tr -d ' \n' |
        sed 's/.*"ids":\[*\([0-9,]*\).*/\1/'
}
# The same with a file that this loader opens.
with() { ids --plugin "$package" -s pipeline.processors="$1"; }
fail() {
    echo "FAILED: $*" >&2
    exit 1
}

"$cadenza" plugin info "$package" >/dev/null
plain=$(ids)
first=${plain%%,*}
: > "$work/none.my_loader"
printf '%s\n' "$first" > "$work/first.my_loader"
printf '12x\n' > "$work/bad.my_loader"
[ "$(with "$work/none.my_loader")" = "$plain" ] || fail "an empty file changes the answer"
case ,$(with "$work/first.my_loader"), in
*",$first,"*) fail "token $first came although the file lists it" ;;
esac
said=$("$cadenza" plugin info "$work/bad.my_loader" --plugin "$package" 2>&1) && fail "12x was taken for a token"
case $said in
*"bad.my_loader:1: expected a token id"*) ;;
*) fail "it said: $said" ;;
esac
echo "ok: $id"
