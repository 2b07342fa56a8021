#!/usr/bin/env bash
# Calls of plugins that do not go through host/call/, by door.awk, which has the names of functions from the ABI's headers.
#   door.sh            looks at all of host/ but call/
#   door.sh FILE...    at these
#   door.sh list       the names
set -euo pipefail
cd "$(dirname "$0")/../.."
abi=(sdk/include/cadenza/{processor,criterion,strategy,drafter,observer,loader,scheduler,press}.h
    sdk/include/cadenza/ext/{companion,form,phase,state,steer}.h)
case ${1:-} in
list) awk -v list=1 -f tools/lint/door.awk "${abi[@]}" ;;
'') find host -path host/call -prune -o -name '*.[ch]' -print0 | xargs -0 awk -f tools/lint/door.awk "${abi[@]}" ;;
*) awk -f tools/lint/door.awk "${abi[@]}" "$@" ;;
esac
