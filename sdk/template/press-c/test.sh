#!/bin/sh
# test.sh - what this package promises, tried with the model that comes with cadenza.
#   sh test.sh [FOLDER]     FOLDER: the built package, when it is not the folder this file is in
set -eu
here=$(dirname "$0")
package=${1:-$here}
cadenza=${CADENZA:-cadenza}
id=$(sed -n 's/^id *= *//p' "$package/plugin.ini")

fail() {
    echo "FAILED: $*" >&2
    exit 1
}
# The answer to ten ids, and what stayed of them: answer OPTION...
answer() {
    printf '{"prompt_ids": [[5, 9, 14, 20, 27, 35, 44, 54, 65, 77]], "kwargs": {"max_new_tokens": 3, "do_sample": false}, "record": {"press": true}}' |
        "$cadenza" run --plugin "$package" --pipeline "$here/story.ini" --request - --json "$@" | tr -d ' \n'
}

"$cadenza" plugin info "$package" >/dev/null
said=$(answer)
case $said in
*'"seen":10'*) ;;
*) fail "it said: $said" ;;
esac
# Half of ten stay in each head, and the four newest are among them.
kept=$(echo "$said" | sed 's/.*"kept":\[\[\[\([0-9,]*\).*/\1/')
case $kept in
*,6,7,8,9) ;;
*) fail "the first head keeps $kept" ;;
esac
[ "$(echo "$kept" | tr ',' '\n' | grep -c .)" = 5 ] || fail "the first head keeps $kept, not five"
! "$cadenza" run --plugin "$package" --pipeline "$here/story.ini" -s mine.newest=-1 -p 'river' \
    >/dev/null 2>&1 || fail "a newest of -1 was taken"
echo "ok: $id"
