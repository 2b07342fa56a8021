#!/bin/sh
# test.sh - what this package promises, tried with a queue that the conformance kit plays, and with a server's settings.
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

"$cadenza" plugin info "$package" >/dev/null
"$cadenza" plugin test "$package" --only runs,starves,same-turns >/dev/null || fail "the kit's queues"
said=$("$cadenza" serve --plugin "$package" --config "$here/server.ini" --check-config 2>&1) ||
    case $said in
    *"no server"*) ;; # of a build without one
    *) fail "it said: $said" ;;
    esac
! "$cadenza" serve --plugin "$package" --config "$here/server.ini" --scheduler-set patience=0 \
    --check-config 2>/dev/null || fail "a patience of 0 was taken"
echo "ok: $id"
