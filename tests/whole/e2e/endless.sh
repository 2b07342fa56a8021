#!/usr/bin/env bash
# A line without end on standard input: every command that reads one says so in a sentence, reads no further, and stays
# within an address space that the line would fill. endless.sh BUILD
set -uo pipefail
# shellcheck source=tests/whole/e2e/setup.sh
source "$(dirname "$0")/setup.sh"
room=2000000 # KiB of address space: the program with its model takes half of a gigabyte, a line 128 MiB while it grows
grep -qE '__(asan|tsan)_init' "$build/bin/cadenza" && room=unlimited # a sanitizer's shadow is larger

# --- what is run: arguments | what comes before the line | what is said
rows='
run --input -||standard input: line 1 is longer than the limit of 67108864 bytes
run --input -|{"prompt": "a", "kwargs": {"max_new_tokens": 1}}\n|standard input: line 2 is longer than the limit of 67108864 bytes
run --request -||longer than 67108864 bytes
run --messages -||longer than 67108864 bytes
run -f -||longer than 67108864 bytes
tokenize --jsonl||line 1 is longer than the limit of 67108864 bytes
template render --jsonl||line 1 is longer than the limit of
template render --context -||longer than
chat||standard input: line 1 is longer than the limit of 67108864 bytes
chat|"""\n|standard input: line 2 is longer than the limit of 67108864 bytes
lua||standard input: line 1 is longer than the limit of 67108864 bytes
detect -w {"greenlist_ratio":0.5}||longer than
'
while IFS='|' read -r arguments before said; do
    [ -n "$arguments" ] || continue
    # shellcheck disable=SC2086,SC2059
    { printf "$before"; tr '\0' a </dev/zero; } 2>/dev/null | {
        ulimit -v $room
        timeout 300 cadenza $arguments >out 2>err
        echo $? >status
    }
    status=$(cat status)
    if [ "$status" = 1 ] && grep -qF "$said" err && [ "$(wc -c <out)" -lt 100000 ]; then
        good
    else
        bad "$arguments: exit $status, $(head -c 300 err)"
    fi
done <<<"$rows"

# Lines of ordinary length, without an end of them, pass through: the answer to the first is there while more come.
{ for _ in $(seq 20000); do echo '"a"'; done; } >lines
(ulimit -v $room && cadenza tokenize --jsonl <lines >out 2>err)
[ "$(wc -l <out)" = 20000 ] && good || bad "tokenize --jsonl: $(wc -l <out) of 20000 lines, $(head -c 200 err)"

echo "endless input: $passed passed, $failed failed"
[ "$failed" = 0 ]
