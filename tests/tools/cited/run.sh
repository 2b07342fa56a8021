#!/usr/bin/env bash
# Pages and files that sources and pages cite are there (tools/lint/cited.sh), and one that is not would be seen.
set -euo pipefail
cd "$(dirname "$0")/../../.."
fail() {
    printf '%s\n' "$*"
    exit 1
}

tools/lint/cited.sh || fail "cited, and not there"

planted=$(mktemp --suffix=.c)
trap 'rm -f "$planted"' EXIT
while IFS= read -r line; do
    printf '%s\n' "$line" >"$planted"
    if tools/lint/cited.sh "$planted" >/dev/null; then fail "not seen: $line"; fi
done <<'END'
/* Why: docs/no-such-page.md */
/* The numbers: docs/reference/internals/no_such.md, 4.3 */
/* see no_such_file.c */
/* As run/pass/no_such.h has it. */
// no_such_file.h: the rest
/* host/run/no_such.c */
END
while IFS= read -r line; do
    printf '%s\n' "$line" >"$planted"
    tools/lint/cited.sh "$planted" || fail "no fault: $line"
done <<'END'
/* Why: docs/design.md; the numbers: docs/reference/internals/random.md, 2 */
/* see loop.c; as run/pass/kv.h and host/run/pass/kv.h have it; a.b.c is a value */
#include "no_such.h"
END

page=$(mktemp --suffix=.md)
trap 'rm -f "$planted" "$page"' EXIT
while IFS= read -r line; do
    printf '%s\n' "$line" >"$page"
    if tools/lint/cited.sh "$page" >/dev/null; then fail "not seen: $line"; fi
done <<'END'
A draft is kept by `keeps_none` in `host/run/loop/draft.c`.
`no_such` and `keep` in `host/run/loop/draft.c`; `life[]` in `loop/loop.c`
| 5 | `serves_none` | `host/run/loop/loop.c` | A loop's life. |
| a table | a line of `lives[]` in `host/run/loop/loop.c` |
Every verb opens with `cdz_verb_leave` (`run/loop/verbs.h`): on the fibre
That is `cdz_no_such_function`, and `cdz_no_such(a, b)` as well.
Blocks (`no_such_file.c`) are counted.
`cadenza convert` writes a model
END
cat >"$page" <<'END'
`keep` in `host/run/loop/draft.c`
`cadenza model convert IN OUT`, `cadenza help NAME`, `cadenza --help`
| `serve` | `host/run/loop/loop.c` |
`cdz_verb_enter` (`run/loop/verbs.h`), `cdz_seq_resumes`, `cdz_seq_*`, `kv.c`, `my_processor.c`
END
tools/lint/cited.sh "$page" || fail "no fault, and seen as one"
