#!/usr/bin/env bash
# Plugins are called through host/call/ alone (tools/lint/door.awk): it is so, and a call of any function of the ABI would
# be seen elsewhere.
set -euo pipefail
cd "$(dirname "$0")/../../.."
look() { tools/lint/door.sh "$@"; }
fail() {
    printf '%s\n' "$*"
    exit 1
}

look ||
    fail "plugins are called outside of host/call/"

planted=$(mktemp)
trap 'rm -f "$planted"' EXIT
names=$(look list)
n=0
for name in $names; do
    for call in "x->$name(&step, y);" "return x.$name(dec, step);" "if (x->$name(&c->step) == y) z();"; do
        printf 'void f(void)\n{\n    %s\n}\n' "$call" >"$planted"
        look "$planted" >/dev/null && fail "not seen: $call"
        n=$((n + 1))
    done
done
[ $n -ge 72 ] || fail "the headers have only these functions: $names"

while IFS= read -r line; do
    printf 'void f(void)\n{\n%b\n}\n' "$line" >"$planted"
    look "$planted" >/dev/null && fail "not seen: $line"
done <<'END'
x->apply(&now,\n  y);
y = cdz_get_form_api(plugin);
y = plugin->extension(id);
cdz_status (*const call)(const cdz_step *) = p->create;
cdz_status (*call)(cdz_decoder *, const cdz_step *) = s->run;
cdz_create_fn *f = cdz_create_of(plugin);
cdz_call_enter(&c, plugin, "apply", CDZ_THREAD_ROW);
END

while IFS= read -r line; do
    printf 'void f(void)\n{\n%b\n}\n' "$line" >"$planted"
    look "$planted" || fail "no call of a plugin: $line"
done <<'END'
backend->api->free(backend, x);
y = step->host->extension(id);
cdz_call_apply(&c, p, &step, y); /* not x->apply(&step, y); */
puts("x->apply(&step, y);");
order->run(order->arg);
if (p->apply) step = 5;
END
