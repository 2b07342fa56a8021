#!/usr/bin/env bash
# The floors of host/ as tools/lint/floors.txt has them.
#   floors.sh         names each include that goes up or past a door, each room that is on no floor, each visitor without need
#   floors.sh table   the table for docs/design.md
set -euo pipefail
cd "$(dirname "$0")/../.."

table() {
    echo '| floor | room | owns |'
    echo '|---|---|---|'
    awk -F ' *[|] *' '/^[0-9]+ [|]/ { printf "| %s | `%s` | %s |\n", $1, $2, $3 }' tools/lint/floors.txt
}

# Lines "file room header" of every include of one room by another.
includes() {
    git ls-files --cached --others --exclude-standard -- 'host/*.c' 'host/*.h' | while read -r file; do
        [ -f "$file" ] && echo "$file"
    done | xargs grep -HoE '^#include "[a-z_]+(/[a-z_]+)*/[a-z0-9_]+\.h"' |
        sed -E 's/^([^:]+):#include "((.*)\/[^/]+)"$/\1 \3 \2/' | sort -u
}

check() {
    includes | awk -F ' *[|] *' '
        BEGIN { split("api base params check hub", always, " "); for (i in always) open[always[i]] = 1 }
        FNR == NR && /^[0-9]+ [|]/ { floor[$2] = $1; next }
        FNR == NR && /^door: / { sub(/^door: /, "", $1); door[$1] = 1; walled[house($1)] = 1; next }
        FNR == NR && /^visitor: / { sub(/^visitor: /, "", $1); n = split($2, rooms, " "); for (i = 1; i <= n; i++) visit[$1, rooms[i]] = 1; next }
        FNR == NR { next }
        {
            split($0, is, " ")
            from = is[1]; sub(/^host\//, "", from); file = from; sub(/(\/tables)?\/[^\/]*$/, "", from)
            to = is[2]; header = is[3]
            if (from == to || to == "cadenza" || to ~ /^cadenza\//) next
            if (!(from in floor)) { bad(is[1] ": its room is on no floor"); next }
            if (!(to in floor)) { bad(is[1] ": includes " to "/, which is on no floor"); next }
            if (floor[to] >= floor[from]) bad(is[1] ": " from " (floor " floor[from] ") includes " to " (floor " floor[to] ")")
            if (house(to) in walled && house(from) != house(to) && !(header in door)) bad(is[1] ": includes " header ", which is no door of " house(to) "/")
            if (header in door) used_door[header] = 1
            if (from != "cli" || to in open) next
            if ((file, to) in visit) used[file, to] = 1
            else bad(is[1] ": includes " to "/: the program goes by cadenza.h")
        }
        function house(path) { sub(/\/.*/, "", path); return path }
        function bad(text) { print text; status = 1 }
        END {
            for (v in visit) if (!(v in used)) { split(v, is, SUBSEP); bad("tools/lint/floors.txt: " is[1] " does not visit " is[2] " any more") }
            for (d in door) if (!(d in used_door)) bad("tools/lint/floors.txt: nobody goes by " d " any more")
            exit status
        }' tools/lint/floors.txt -
}

case ${1:-} in
table) table ;;
*) check ;;
esac
