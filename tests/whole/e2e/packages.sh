#!/usr/bin/env bash
# Packages as a user meets them: added, pinned, changed, removed, in a model's folder, in safe mode. packages.sh BUILD.
set -uo pipefail
# shellcheck source=tests/whole/e2e/setup.sh
source "$(dirname "$0")/setup.sh"
cc=${CADENZA_DOC_CC:-cc}
quiet() { sed -i "/^==[0-9]*==WARNING: ASan doesn't fully support makecontext/d" "$1"; }
# check NAME COMMAND...: the command succeeds; what it printed is in out
check() {
    local name=$1
    shift
    if "$@" >out 2>err </dev/null; then good; else bad "$name: status $?: $(cat out err)"; fi
    quiet err
}
shows() { if grep -qE -- "$2" out; then good; else bad "$1: no line has '$2': $(cat out)"; fi; }
# refused NAME STATUS WORDS COMMAND...: one sentence on stderr that holds the words
refused() {
    local name=$1 want=$2 words=$3 status
    shift 3
    "$@" >out 2>err </dev/null
    status=$?
    quiet err
    if [ "$status" != "$want" ]; then bad "$name: status $status, expected $want: $(cat err)"
    elif [ "$(wc -l <err)" != 1 ] || ! grep -q '^cadenza: ' err; then bad "$name: not one sentence: $(cat err)"
    elif ! grep -qF -- "$words" err; then bad "$name: lacks '$words': $(cat err)"
    else good; fi
}
native() { "$cc" -std=c17 -O2 -shared -fPIC -fvisibility=hidden -I"$root/sdk/include" "$1/$1.c" -o "$1/$1.so"; }
run=(cadenza run -s do_sample=no -s max_new_tokens=4 -p 'A dog is')
lock=$HOME/.config/cadenza/cadenza.lock
mine=$HOME/.local/share/cadenza/plugins

# --- add and remove, in both languages
for lang in c lua; do
    id=org.example.try-$lang
    cadenza plugin new try_$lang --kind processor --lang $lang >/dev/null
    [ $lang = lua ] || native try_c
    refused "add $lang asks" 2 "--yes says yes" cadenza plugin add try_$lang
    shows "add $lang shows first" "^id  *$id\$"
    [ ! -e "$lock" ] || [ $lang = lua ] && good || bad "nothing is written before the yes"
    check "add $lang" cadenza plugin add try_$lang --yes
    shows "what it needs" '^needs '
    shows "hashes" '^ +[0-9a-f]{64}  try_'
    check "info $lang by id" cadenza plugin info $id
    shows "where from" '\(user folder\)'
    check "run $lang by id" "${run[@]}" -s pipeline.processors=$id
    check "add $lang again" cadenza plugin add try_$lang --yes
done
check "list" cadenza plugin list -v
shows "places" "^  user folder +$mine\$"
shows "locks" "^  $lock: 2 plugins"
shows "pinned" "user folder: $mine/org.example.try-c, pinned in $lock"
printf 'x' >>"$mine/org.example.try-c/try_c.so"
refused "changed since pinned" 1 "if you trust the change, pin it anew" cadenza plugin info org.example.try-c
hash=$(sha256sum <"$mine/org.example.try-c/try_c.so" | cut -d' ' -f1)
grep -q "its sha256 is $hash, $lock pins $(sha256sum <try_c/try_c.so | cut -d' ' -f1)" err && good || bad "both hashes: $(cat err)"
check "built-in plugins are not affected" "${run[@]}"
check "list -v says why" cadenza plugin list -v
shows "the refusal" 'org.example.try-c/try_c.so: its sha256 is'
check "add puts it right" cadenza plugin add try_c --yes
check "by id again" "${run[@]}" -s pipeline.processors=org.example.try-c
refused "remove with a typo" 1 "did you mean 'org.example.try-c'?" cadenza plugin remove org.example.tryc
check "remove" cadenza plugin remove org.example.try-c
[ ! -e "$mine/org.example.try-c" ] && good || bad "the copy is still there"
grep -q try-c "$lock" && bad "the pin is still there" || good
refused "its id is gone" 1 "no plugin 'org.example.try-c'" cadenza plugin info org.example.try-c
check "remove the script" cadenza plugin remove org.example.try-lua
refused "a package that does not work is not pinned" 1 "nothing was pinned: odd/plugin.ini: kind = strategy, but try_c.so exports" \
    bash -c 'cp -r try_c odd && sed -i s/processor/strategy/ odd/plugin.ini && cadenza plugin add odd --yes'
[ -z "$(ls -A "$mine")" ] && good || bad "it left $(ls -A "$mine")"
refused "no package" 1 "no plugin package" cadenza plugin add .
refused "add what" 2 "add takes one package folder" cadenza plugin add
answer=$(script -qec "cadenza plugin add try_c" /dev/null <<<n 2>&1)
case $answer in *'Add it? [y/N]'*'nothing was changed'*) good ;; *) bad "no is no: $answer" ;; esac
answer=$(script -qec "cadenza plugin add try_c" /dev/null <<<y 2>&1)
case $answer in *'org.example.try-c is pinned'*) good ;; *) bad "yes is yes: $answer" ;; esac
check "taken away" cadenza plugin remove org.example.try-c

# --- loaders: one of one's own and its files, and those of the built-in ones
cadenza plugin new tokens --kind loader --lang c >/dev/null && native tokens
mkdir -p pack calm && printf '300\n' >pack/t.tokens
printf '[plugin]\nid = org.example.tokens.tokens\nversion = 0.1.0\nkind = processor\nentry = t.tokens\n' >pack/plugin.ini
refused "a file before its loader" 1 "its name ends in none of .so, .lua, .rules" cadenza plugin info pack/t.tokens
refused "no such loader" 1 "none.nones: no such plugin file" "${run[@]}" -s pipeline.processors=nones:none.nones
check "a named loader" cadenza plugin info pack/t.tokens --plugin tokens
shows "its plugin" '^id  *org.example.tokens.tokens$'
check "its file in a pipeline" "${run[@]}" --plugin tokens -s pipeline.processors=tokens:pack/t.tokens
check "explain names it" cadenza explain tokens/story.ini --plugin tokens
shows "with its file" 'example.tokens'
check "the loader is added" cadenza plugin add tokens --yes
check "its package is added" cadenza plugin add pack --yes
check "and found by id" "${run[@]}" -s pipeline.processors=org.example.tokens.tokens
check "listed" cadenza plugin list -v
shows "loaders have a place" '^loaders$'
shows "the loader" '^  org.example.tokens '
shows "the one that is linked in" '^ +built-in: libcadenza$'
check "the package's pin is taken away" cadenza plugin remove org.example.tokens.tokens
mkdir -p "$mine/found" && cp pack/* "$mine/found"
refused "found and not pinned" 1 "native code found in a directory" cadenza plugin info org.example.tokens.tokens
rm -r "$mine/found"
check "the loader is removed" cadenza plugin remove org.example.tokens
cadenza plugin new other_tokens --kind loader --lang c >/dev/null
sed -i 's/endings = "other_tokens"/endings = "tokens|lua"/' other_tokens/other_tokens.c && native other_tokens
refused "two for one ending" 1 "takes .tokens files, but they belong to the loader org.example.tokens" \
    cadenza plugin list --plugin tokens --plugin other_tokens
refused "an ending of a built-in loader" 1 "takes .lua files, but they belong to the built-in loader org.cadenza.lua-loader" \
    cadenza plugin list --plugin other_tokens
printf 'ban " dog"\n' >calm/calm.rules
printf '[plugin]\nid = rules.calm\nversion = 1.0.0\nkind = processor\nentry = calm.rules\n' >calm/plugin.ini
check "a package of rules is added" cadenza plugin add calm --yes
check "schema of a loader" cadenza plugin schema org.cadenza.rules
check "rules by id" "${run[@]}" -s pipeline.processors=rules.calm
check "rules in safe mode" cadenza plugin list --safe-mode
shows "are known" '^  org.cadenza.rules '
check "removed again" cadenza plugin remove rules.calm

# --- schemas
check "schema of an id" cadenza plugin schema top_k
shows "its parameter" '"top_k": \{"description"'
check "schema of a path" cadenza plugin schema ./try_lua
shows "its title" '"title": "org.example.try-lua"'
check "schema of a request" cadenza plugin schema
shows "generation parameters" '"max_new_tokens": .*"minimum": 1'
refused "schema of nothing" 1 "did you mean 'top_k'?" cadenza plugin schema top_kk
refused "schema of two" 2 "schema takes one" cadenza plugin schema top_k top_p

# the ABI as numbers: those that are recorded of this version
check "abi as text" cadenza plugin abi
grep -q 'struct cdz_step: ' out && good || bad "no struct in: $(head -3 out)"
check "abi as JSON" cadenza plugin abi --json
python3 - out "$root/tests/plugins/abi" <<'EOF' && good || bad "abi --json is not what is recorded"
import json, sys
abi = json.load(open(sys.argv[1]))
values = {n: v for e in abi["enums"].values() for n, v in e.items()}
fields = {f"{s}.{f['name']}": (f["offset"], f["size"]) for s, b in abi["structs"].items() for f in b["fields"]}
for line in open(f"{sys.argv[2]}/layout-{abi['abi']}.txt"):
    w = line.replace(",", "").split()
    if w[0] == "struct":
        assert abi["structs"][w[1]]["size"] == int(w[2]), line
    elif w[1] == "=":
        assert values[w[0]] == int(w[2]), line
    else:
        assert fields[w[0]] == (int(w[2]), int(w[3])), line
assert "cadenza.vec/1" in abi["extensions"]
EOF
refused "abi of something" 2 "abi takes no" cadenza plugin abi top_k

# --- folders of one's own, a project's lock
export CADENZA_PLUGIN_PATH=$work
refused "found, not pinned" 1 "native code found in a directory" cadenza plugin info org.example.try-c
check "a script that is found runs" cadenza plugin info org.example.try-lua
apart=(-s pipeline.processors=org.example.try-c -s org.example.try-c.isolation=process)
check "found, not pinned, held in" "${run[@]}" "${apart[@]}"
printf '[pipeline]\nisolation = process\nprocessors = org.example.try-c, org.example.try-lua\n' >apart.ini
check "by default" cadenza explain apart.ini
shows "where it runs" 'org.example.try-c .*from .*try_c.*, in a process of its own'
[ "$(grep -c 'process of its own' out)" = 1 ] && good || bad "who else runs there: $(cat out)"
refused "not without" 1 "isolation = process in its section" "${run[@]}" -s pipeline.processors=org.example.try-c
refused "not in safe mode" 1 "no processor 'org.example.try-c'" "${run[@]}" --safe-mode "${apart[@]}"
mkdir m && cp "$root"/models/pocket-dictionary/*.json m/ && cp -r try_c m/custom_generate
refused "not in a model" 1 "native code inside a model's folder is never loaded" \
    "${run[@]}" -s pipeline.processors=m/custom_generate -s m/custom_generate.isolation=process
rm -r m
mkdir -m 777 open && cp -r try_c open/elsewhere
refused "not found, and where it may be" 1 "refused was $work/open: anyone may write" \
    env CADENZA_PLUGIN_PATH="$work/open" cadenza plugin info org.example.try-c
refused "pinned where it would not be found" 1 "nothing was pinned: $work/open: anyone may write to this folder" \
    env CADENZA_PLUGIN_PATH="$work/open" cadenza plugin add open/elsewhere --yes
rm -r open
check "pinned where it is" cadenza plugin add try_c --yes --lock cadenza.lock
shows "it stays" '^stays in +try_c'
check "found, pinned" "${run[@]}" -s pipeline.processors=org.example.try-c
[ -z "$(ls -A "$mine")" ] && good || bad "a copy was made"
(cd / && cadenza plugin info org.example.try-c >/dev/null 2>&1) && bad "the project's lock counts elsewhere" || good
cp cadenza.lock kept
sed -i '$d' cadenza.lock
refused "a lock cut short" 1 "cadenza.lock:" "${run[@]}" -s pipeline.processors=org.example.try-c
check "runs without it" "${run[@]}"
check "is in the list" cadenza plugin list -v
shows "with its sentence" 'cadenza.lock:[0-9]+:1: plugin org.example.try-c has no line for'
refused "and is not written over" 1 "cadenza.lock:" cadenza plugin add try_c --yes
mv kept cadenza.lock
chmod o+w cadenza.lock
refused "a lock anyone may write" 1 "anyone may write" "${run[@]}" -s pipeline.processors=org.example.try-c
chmod o-w cadenza.lock
check "right again" "${run[@]}" -s pipeline.processors=org.example.try-c

# --- safe mode: nothing but built-ins, in every command that loads plugins
printf '[pipeline]\nprocessors = org.example.try-c\n' >by-id.ini
printf '[pipeline]\nprocessors = ./try_c/try_c.so\n' >by-path.ini
refused "safe run, by id" 1 "no processor 'org.example.try-c'" "${run[@]}" --safe-mode --pipeline by-id.ini
for command in "run -p a" chat "parity $root/tests/golden/pocket-dictionary-4k"; do
    # shellcheck disable=SC2086
    refused "safe $command, a path" 1 "in safe mode only built-in plugins are loaded" \
        cadenza $command --safe-mode --pipeline by-path.ini
    # shellcheck disable=SC2086
    refused "safe $command, --plugin" 1 "in safe mode only built-in plugins are loaded" \
        cadenza $command --safe-mode --plugin try_c
done
refused "safe explain" 1 "in safe mode only built-in plugins are loaded" cadenza explain --safe-mode by-path.ini
refused "safe custom generate" 1 "in safe mode" "${run[@]}" --safe-mode --custom-generate try_c
refused "safe info" 1 "in safe mode" cadenza plugin info --safe-mode try_c
refused "safe add" 1 "in safe mode nothing is added" cadenza plugin add --safe-mode try_c --yes
check "safe list" cadenza plugin list -v --safe-mode
grep -q 'try-\|cadenza.lock' out && bad "safe list shows: $(cat out)" || good
check "safe run" "${run[@]}" --safe-mode
unset CADENZA_PLUGIN_PATH

# --- a model that brings its own loop
cp -r "$root/models/pocket-dictionary" model
mkdir -p model/custom_generate
cat >model/custom_generate/plugin.ini <<'END'
[plugin]
id = org.example.own-loop
version = 1.0.0
kind = strategy
entry = loop.lua
END
cat >model/custom_generate/loop.lua <<'END'
return cadenza.strategy { id = "org.example.own-loop", version = "1.0.0", greedy = true,
  params = { token = { 300, 0, 1000, "the only one", integer = true } },
  run = function(ctx)
    while not ctx:done() do
      ctx:forward()
      ctx:append(ctx.params.token)
    end
  end }
END
own=(cadenza run model -s max_new_tokens=3 -p 'A dog is' --json)
usual=$("${own[@]}" 2>err | tr -d ' \n')
grep -q 'model has a decode loop of its own, which is not used; --allow-model-plugins' err && good || bad "it is said: $(cat err)"
case $usual in *'300,300,300'*) bad "it ran without leave" ;; *) good ;; esac
check "allowed" "${own[@]}" --allow-model-plugins
tr -d ' \n' <out | grep -q '300,300,300' && good || bad "the model's loop did not run: $(cat out)"
check "its parameters are routed" "${own[@]}" --allow-model-plugins -s token=301
tr -d ' \n' <out | grep -q '301,301,301' && good || bad "with its parameter: $(cat out)"
check "a named strategy wins" "${own[@]}" --allow-model-plugins -s pipeline.strategy=greedy
tr -d ' \n' <out | grep -q '300,300,300' && bad "over a strategy that was named" || good
refused "named without the flag" 1 "--allow-model-plugins lets it run" "${own[@]}" --custom-generate model
check "named for another model" cadenza run -s max_new_tokens=3 -p 'A dog is' --json --custom-generate model --allow-model-plugins
tr -d ' \n' <out | grep -q '300,300,300' && good || bad "the loop of another model: $(cat out)"
check "safe mode wins" "${own[@]}" --safe-mode --allow-model-plugins
tr -d ' \n' <out | grep -q '300,300,300' && bad "it ran in safe mode" || good
cadenza chat model --allow-model-plugins --help </dev/null >/dev/null && good || bad "chat knows the flag"
check "explain" cadenza explain hf model --allow-model-plugins
shows "names it" 'org.example.own-loop'
check "add copies it out" cadenza plugin add model/custom_generate --yes
check "by id" cadenza run -s max_new_tokens=3 -p 'A dog is' --custom-generate org.example.own-loop
check "and takes it away" cadenza plugin remove org.example.own-loop
cadenza plugin new loop_c --kind strategy --lang c >/dev/null && native loop_c
cp -r model/custom_generate package_of_loop
rm -r model/custom_generate && cp -r loop_c model/custom_generate
for flag in --allow-model-plugins --threads=1; do
    refused "native, $flag" 1 "native code inside a model's folder is never loaded" "${own[@]}" $flag --custom-generate model
    refused "native by its file, $flag" 1 "is never loaded" "${own[@]}" $flag --custom-generate model/custom_generate/loop_c.so
done
refused "native, the model's own" 1 "move its package to another folder" "${own[@]}" --allow-model-plugins

# --- a pipeline that only a request names
mkdir ask && cp try_c/try_c.so ask/ && cp try_lua/try_lua.lua ask/
printf '[pipeline]\nprocessors = ./try_c.so\n' >ask/native.ini
printf '[pipeline]\nprocessors = ./held.so\n[./held.so]\nid = ./try_c.so\nisolation = process\n' >ask/held.ini
printf '[pipeline]\nuse = native.ini\n' >ask/used.ini
printf '[pipeline]\nprocessors = lua:try_lua.lua\n' >ask/script.ini
line() { printf '{"prompt": "A dog is", "pipeline": "%s", "kwargs": {"max_new_tokens": 2}}\n' "$1" >lines.jsonl; }
for ini in native held used; do
    line ask/$ini.ini
    cadenza run --input lines.jsonl >out 2>err && bad "a request names native code: $ini.ini" || good
    grep -q 'native code that only a request names is not loaded' out && good || bad "$ini.ini: $(cat out err)"
done
line ask/native.ini
check "unless it was named" cadenza run --plugin ask/try_c.so --input lines.jsonl
check "or the pipeline was" cadenza run --pipeline ask/native.ini --input lines.jsonl
line ask/script.ini
check "a script" cadenza run --input lines.jsonl

# --- beside a GGUF file
mkdir -p gg/a/b && cadenza model convert model gg/model.gguf >/dev/null 2>&1 && cp ask/try_c.so gg/a/b/
cp try_c/try_c.so gg/
for so in gg/try_c.so gg/a/b/try_c.so; do
    refused "native code at $so" 1 "native code inside a model's folder is never loaded" "${run[@]}" --plugin $so
done
mkdir gg/custom_generate && cp package_of_loop/* gg/custom_generate/
refused "a loop without the flag" 1 "--allow-model-plugins lets it run" "${run[@]}" --custom-generate gg
check "a loop with the flag" "${run[@]}" --custom-generate gg --allow-model-plugins

# --- ids: their grammar, short ones, those of two plugins
script() { # script FILE ID
    printf 'return cadenza.processor { id = "%s", version = "1.0.0", apply = function() end }\n' "$2" >"$1"
}
package() { # package FOLDER ID
    mkdir -p "$1" && script "$1/p.lua" "$2"
    printf '[plugin]\nid = %s\nversion = 1.0.0\nkind = processor\nentry = p.lua\n' "$2" >"$1/plugin.ini"
}
for id in .hidden -x ..  org..x org.x. ORG.x 'a b' org/x; do
    package strange "$id"
    refused "add takes no id $id" 1 "expected 1 to 64 of a-z" cadenza plugin add strange --yes
    script strange.lua "$id"
    "${run[@]}" --plugin strange.lua >out 2>err && bad "nor does a script, $id" || good
    grep -q "expected 1 to 64 of a-z" err && good || bad "nor does a script, $id: $(cat err)"
    refused "nor a new one" 2 "expected 1 to 64 of a-z" cadenza plugin new made --kind processor --lang lua --id "$id"
done
[ ! -e "$mine/.hidden" ] && good || bad "a hidden folder was made"
script temperature.lua temperature
refused "an id of the built-ins" 1 "its id 'temperature' has no dot" "${run[@]}" --plugin temperature.lua
package plain plain
refused "added" 1 "has no dot" cadenza plugin add plain --yes
refused "new" 2 "ids without a dot are the built-in plugins'" cadenza plugin new made --kind processor --lang lua --id plain
check "a short id" "${run[@]}" -s observers=trace
grep -q 'org.cadenza.trace' err && good || bad "a short id: the observer is not there: $(cat err)"
check "- and _ are alike" "${run[@]}" -s strategy=contrastive_search -s penalty_alpha=0.6 -s top_k=4
check "of a plugin page" cadenza plugin info contrastive-search
script one.lua org.one.calm_down && script two.lua org.two.calm-down && script again.lua org.one.calm_down
check "a short id of one" "${run[@]}" --plugin one.lua -s processors=calm-down
refused "of two" 2 "'calm-down' may be org.one.calm_down or org.two.calm-down; write which" \
    "${run[@]}" --plugin one.lua --plugin two.lua -s processors=calm-down
check "the whole of it" "${run[@]}" --plugin one.lua --plugin two.lua -s processors=org.two.calm-down
check "one id, two plugins" "${run[@]}" --plugin one.lua --plugin again.lua
[ "$(grep -c "two plugins have the id 'org.one.calm_down': .*one.lua is used, .*again.lua is not" err)" = 1 ] && good ||
    bad "one id, two plugins: $(cat err)"
check "one file, twice" "${run[@]}" --plugin one.lua --plugin ./one.lua
grep -q 'two plugins' err && bad "one file, twice: $(cat err)" || good
printf '[pipeline]\nprocessors = org.one.calm_down\n' >both.ini
check "explain" cadenza explain both.ini --plugin one.lua --plugin again.lua
grep -q 'two plugins have the id' out err && good || bad "explain is silent: $(cat out err)"

echo "COUNTED $passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
