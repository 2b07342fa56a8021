#!/bin/sh
# test.sh - what this package promises, tried with the model that comes with cadenza.
#   sh test.sh [FOLDER]     FOLDER: the built package, when it is not the folder this file is in
set -eu
here=$(dirname "$0")
package=${1:-$here}
cadenza=${CADENZA:-cadenza}
id=$(sed -n 's/^id *= *//p' "$package/plugin.ini")

# The token ids of an answer, separated by commas: ids OPTION...
ids() {
    "$cadenza" run -p 'river (noun): a' -s do_sample=no -s max_new_tokens=12 --json "$@" | tr -d ' \n' |
        sed 's/.*"ids":\[*\([0-9,]*\).*/\1/'
}
# The same through the package's own pipeline.
mine() { ids --plugin "$package" --pipeline "$here/story.ini" "$@"; }
fail() {
    echo "FAILED: $*" >&2
    exit 1
}

"$cadenza" plugin info "$package" >/dev/null
plain=$(ids)
[ "$(mine)" = "$plain" ] || fail "a draft changed the answer"
"$cadenza" run -p 'a b a b a b' -s do_sample=no -s max_new_tokens=12 --json --plugin "$package" \
    --pipeline "$here/story.ini" | grep -q '"rounds"' || fail "nothing was proposed"
echo "ok: $id"
