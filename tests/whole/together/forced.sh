#!/usr/bin/env bash
# Text that a constraint forces comes by drafts wherever the constraint begins, and changes nothing: tokens, scores and seeds
# are those of plain decoding. forced.sh BUILD
set -uo pipefail
build=$(cd "$1" && pwd)
root=$(cd "$(dirname "$0")/../../.." && pwd)
export PATH="$build/bin:$PATH" CADENZA_PLUGIN_DIR="${CADENZA_PLUGIN_DIR:-$build/lib/cadenza}"
model=$root/models/pocket-dictionary
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
passed=0 failed=0 by_script=0
pass() { passed=$((passed + 1)); }
fail() {
    echo "FAILED $1"
    failed=$((failed + 1))
}

cat > schema.json <<'JSON'
{
  "type": "object",
  "properties": {"description": {"enum": ["animal", "vegetable"]}, "language": {"type": "integer", "maximum": 99}},
  "required": ["description", "language"],
  "additionalProperties": false,
  "x-guidance": {"whitespace_flexible": false}
}
JSON
sed '/x-guidance/d; s/false,$/false/' schema.json > open.json # any whitespace
cat > tags.json <<'JSON'
{"triggers": ["river"], "structures": [{"begin": "river is a large natural stream of water named ", "end": ".", "schema": {"enum": ["Europe", "Africa"]}}]}
JSON

# Keeps answers to a regular expression of its own from their third token on, and tells so.
cat > late.lua <<'LUA'
local later = cadenza.grammar { regex = " is a kind of (animal|plant) that [a-z ]+" }
return cadenza.processor {
  id = "test.late", version = "1.0.0",
  begin = function() return { at = later:start(), n = 0 } end,
  accept = function(_, state, token)
    if state.n >= 2 and state.at ~= 0 then state.at = later:feed(state.at, { token }) end
    state.n = state.n + 1
  end,
  constraint = function(_, _, ctx)
    if ctx.state.n >= 2 then return later, ctx.state.at end
  end,
  apply = function(_, _, row, ctx)
    if ctx.state.n >= 2 and ctx.state.at ~= 0 then row:keep_bits(later:allowed(ctx.state.at)) end
  end,
}
LUA
# A drafter in a script: it goes on while one token alone is allowed.
cat > only.lua <<'LUA'
return cadenza.drafter {
  id = "test.only", version = "1.0.0", draws_in_turn = true,
  propose = function(_, _, room, ctx)
    local draft, g, at = {}, ctx:constraint()
    while g and at ~= 0 and #draft < room do
      local allowed = g:allowed(at)
      if allowed:count() ~= 1 or g:accepts(at) then break end
      draft[#draft + 1] = allowed:ids()[1]
      at = g:feed(at, { draft[#draft] })
    end
    return draft
  end,
}
LUA

pipeline() { # case, drafter
    printf '[pipeline]\ndrafter = %s\n' "$2"
    [ "$1" = late ] && echo 'processors = lua:late.lua'
    printf '[generation]\ndo_sample = false\nmax_new_tokens = 40\noutput_scores_top = 5\n'
    case $1 in
    whole) echo "json_schema = file:schema.json" ;;
    open) echo "json_schema = file:open.json" ;;
    behind) printf 'json_schema = file:schema.json\ngrammar_after = .\n' ;;
    trigger) printf 'structural_tag = file:tags.json\nsequence_bias = [[[%s], 6.0]]\n' "$river" ;;
    phase) printf '[phase:think]\nuntil = " Example:"\nmax_tokens = 6\n[phase:answer]\njson_schema = file:schema.json\n' ;;
    two_phases) printf '[phase:think]\nuntil = [%s]\nmax_tokens = 9\nregex = " is a [a-z ]+"\n[phase:answer]\njson_schema = file:schema.json\n' "$dot" ;;
    esac
}
dot=$(cadenza tokenize "$model" -p '.' | tr -d '[] \n')
river=$(cadenza tokenize "$model" -p ' river' | tr -d '[] \n')

# What an answer says but for its drafts and times, and how many tokens of drafts were right.
said() { sed -E 's/, "rounds": \[[^"]*\]//; s/, "seed": [0-9]+//; s/, "timings": \{[^}]*\}//' "$1"; }
accepted() { grep -o '"rounds": [^"]*' "$1" | grep -oE '\[[0-9]+, [0-9]+\]' | awk -F'[], ]+' '{ n += $2 } END { print n + 0 }'; }

for case in whole open behind trigger phase two_phases late; do
    for drafter in none forced lua:only.lua; do pipeline "$case" "$drafter" > "$case-${drafter//[:.]/_}.ini"; done
    by_forced=0
    for mode in '' '-s do_sample=yes -s seed=7' '-s do_sample=yes -s seed=8 -s temperature=1.5'; do
        if ! cadenza run "$model" --json --pipeline "$case-none.ini" $mode -p 'river (noun): a' > plain 2> err; then
            fail "$case $mode: $(cat err)"
            continue
        fi
        for drafter in forced lua_only_lua; do
            cadenza run "$model" --json --pipeline "$case-$drafter.ini" $mode -p 'river (noun): a' > drafted 2> err || fail "$case, $drafter $mode: $(cat err)"
            if [ "$(said drafted)" = "$(said plain)" ]; then pass; else fail "$case, $drafter $mode: $(said drafted) is not $(said plain)"; fi
            if [ $drafter = forced ]; then by_forced=$((by_forced + $(accepted drafted))); else by_script=$((by_script + $(accepted drafted))); fi
        done
    done
    if [ "$by_forced" -ge 3 ]; then pass; else fail "$case: $by_forced tokens came by drafts"; fi
done
if [ "$by_script" -ge 5 ]; then pass; else fail "the script's drafts were right $by_script times"; fi

# Whitespace that may come is proposed as the text has it: a processor makes the model write texts, whose drafts are not paced.
write() { # yes or no: propose whitespace
    cadenza run "$model" --json --pipeline open-forced.ini -s pipeline.processors=lua:write.lua -s pipeline.drafting=fixed \
        -s "forced.whitespace=$1" -p 'river (noun): a' > "whitespace-$1" 2> err || fail "$text: $(cat err)"
    local wrote
    wrote=$(grep -o '"ids": [^]]*\]' "whitespace-$1")
    [ "$wrote" = "\"ids\": ${ids%]}, 0]" ] || fail "$text: the model wrote $wrote, not $ids"
}
while read -r text; do
    ids=$(cadenza tokenize "$model" --no-special -p "$(printf '%b' "$text")")
    cat > write.lua <<LUA
local answer = { ${ids:1:-1}, 0 }
return cadenza.processor {
  id = "test.write", version = "1.0.0", needs_ids = true,
  apply = function(_, ids, row, ctx) row[answer[#ids - ctx.prompt_len + 1]] = 1e9 end,
}
LUA
    write yes
    write no
    with=$(accepted whitespace-yes) without=$(accepted whitespace-no)
    if [ "$with" -gt "$without" ]; then pass; else fail "$text: $with tokens came by drafts, $without without whitespace"; fi
done <<'TEXTS'
{"description": "animal", "language": 30}
{"description":"animal","language":30}
{\n    "description": "animal",\n    "language": 30\n}
TEXTS

# Told of, and of nothing else: what a processor tells must be a grammar with a state.
refuses() { # name, what constraint returns, part of the sentence
    sed "s/if ctx.state.n >= 2 then return later, ctx.state.at end/$2/" late.lua > wrong.lua
    sed 's/late.lua/wrong.lua/' late-forced.ini > wrong.ini
    if cadenza run "$model" --pipeline wrong.ini -p 'river (noun): a' > out 2> err; then
        fail "$1: no error: $(cat out)"
    elif grep -q "$3" err; then pass; else fail "$1: $(cat err)"; fi
}
refuses 'no grammar' 'return 5, 1' 'constraint returned a number, expected a grammar'
refuses 'no state' 'return later' 'constraint returned no state beside its grammar'
refuses 'a grammar that nobody asked in begin' 'return cadenza.grammar { regex = "a" }, 1' 'asked in begin'
echo "COUNTED $passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
