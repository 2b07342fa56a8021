#!/usr/bin/env bash
# The program as a user meets it: run.sh BUILD. Each check has a name; prints COUNTED passed, failed, skipped.
set -uo pipefail
build=$(cd "$1" && pwd)
root=$(cd "$(dirname "$0")/../../.." && pwd)
[ -x "$build/bin/cadenza" ] || { echo "FAILED: there is no program $build/bin/cadenza: build it first"; exit 1; }
export PATH="$build/bin:$PATH" CADENZA_PLUGIN_DIR="${CADENZA_PLUGIN_DIR:-$build/lib/cadenza}"
model=$root/models/pocket-dictionary
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
passed=0 failed=0

# AddressSanitizer says once per process that it does not fully support swapcontext; we tell it of every switch
# ourselves (host/run/loop/fibre_ucontext.c), so that line is no part of what the program says.
forget_note() { sed -i "/^==[0-9]*==WARNING: ASan doesn't fully support makecontext/d" "$1"; }

forget_notes() { sed "/^==[0-9]*==WARNING: ASan doesn't fully support makecontext/d"; }

good() { passed=$((passed + 1)); }
bad() {
    printf 'FAILED %s\n' "$*"
    failed=$((failed + 1))
}
# check NAME COMMAND...: the command succeeds
check() {
    local name=$1
    shift
    if output=$("$@" 2>&1 </dev/null); then good; else bad "$name: status $?: $output"; fi
}
same() { if [ "$2" = "$3" ]; then good; else bad "$1: '$2' is not '$3'"; fi; }
differ() { if [ "$2" != "$3" ] && [ -n "$2" ] && [ -n "$3" ]; then good; else bad "$1: '$2' and '$3'"; fi; }
# refused NAME STATUS WORDS COMMAND...: exit status, nothing on stdout, one line on stderr that begins with cadenza: and
# holds the words
refused() {
    local name=$1 want=$2 words=$3 status text
    shift 3
    "$@" >out 2>err </dev/null
    status=$?
    forget_note err
    text=$(cat err)
    if [ "$status" != "$want" ]; then bad "$name: status $status, expected $want: $text"
    elif [ -s out ]; then bad "$name: printed '$(head -c 200 out)'"
    elif [ "$(wc -l <err)" != 1 ] || [[ $text != cadenza:* ]]; then bad "$name: not one sentence: $text"
    elif [[ $text != *"$words"* ]]; then bad "$name: lacks '$words': $text"
    else good; fi
}
# refused_run NAME WORDS ARGS: the same for a request that fails while it runs (text may have been printed before)
greedy=(-s do_sample=no)

# --- text in, text out
river=$(cadenza run "${greedy[@]}" -p 'river (noun): a')
same "a prompt is continued" "$river" " large natural stream of water (larger than a creek). A river is a kind of stream."
same "standard input is a prompt" "$(echo 'river (noun): a' | cadenza run "${greedy[@]}")" "$river"
same "the model can be named" "$(cadenza run "$model" "${greedy[@]}" -p 'river (noun): a')" "$river"
same "ids are a prompt" "$(cadenza run "${greedy[@]}" --ids 360,336,292,305,299,261)" "$river"
same "without a tokenizer ids are the answer" "$(cadenza run "$root/tests/golden/gpt2" "${greedy[@]}" --ids 5,6,7 --max-new-tokens 4)" 142,42,96,222
check "json is JSON" bash -c "cadenza run ${greedy[*]} -p 'river (noun): a' --json | grep -q '\"finish_reason\": \"stop\"'"
same "a seed repeats" "$(cadenza run --seed 5 -p 'music is')" "$(cadenza run --seed 5 -p 'music is')"
differ "seeds differ" "$(cadenza run --seed 5 -p 'music is')" "$(cadenza run --seed 6 -p 'music is')"
same "threads do not change the text" "$(cadenza run --threads 1 --seed 5 -p 'music is')" "$(cadenza run --threads 3 --seed 5 -p 'music is')"

# --- where the time goes: beside the answer, never in it
same "a profile does not change the answer" "$(cadenza run --profile "${greedy[@]}" -p 'river (noun): a' 2>profile)" "$river"
forget_note profile
check "the profile names every kind" bash -c 'for k in schedule request strategy rules embed matmul attention norm head processors draw detokenise together; do grep -q "^  $k " profile || exit 1; done'
check "it counts passes" grep -q '1 passes of 6 rows for prompts, 22 of 22 for new tokens; 1 requests' profile
same "nothing is profiled unasked" "$(cadenza run "${greedy[@]}" -p 'river (noun): a' 2>&1 >/dev/null | forget_notes)" ""

# --- measuring a model: what is there, not how fast
small=(--rounds 2 --prompt-tokens 8 --new-tokens 4 --context 4)
check "bench shows both figures and the limits" bash -c "cadenza bench ${small[*]} >bench.txt && grep -q '^prompt of 8 tokens' bench.txt && grep -q '^4 new tokens after 4' bench.txt && grep -q 'of read limit' bench.txt"
check "bench shows every stage" bash -c 'for k in schedule embed matmul attention head processors draw detokenise; do grep -q "^  $k " bench.txt || exit 1; done'
check "bench writes JSON beside the table" bash -c "cadenza bench ${small[*]} --batch 2 --json bench.json | grep -q '2 sequences together'"
check "its settings are in it" grep -q '"settings": {"prompt_tokens": 8, "new_tokens": 4, "context": 4, "batch": 2, "rounds": 2}' bench.json
check "passes are counted" bash -c "grep -q '\"prefill\": {\"passes\": 2,' bench.json && grep -q '\"decode\": {\"passes\": 6,' bench.json"
check "bench prints JSON" bash -c "cadenza bench ${small[*]} --format json | grep -q '\"schema\": \"cadenza.bench/1\"'"
check "bench takes a type of weights" bash -c "cadenza bench ${small[*]} --quantize q8_0 | grep -q 'in q8_0'"
check "bench takes settings" cadenza bench "${small[@]}" -s do_sample=no -s repetition_penalty=1.2
refused "bench counts from 1" 2 "--rounds 0: expected a number from 1 to 1000" cadenza bench --rounds 0
refused "bench wants numbers" 2 "--batch many" cadenza bench --batch many
refused "bench knows two formats" 2 "expected table or json" cadenza bench --format xml
refused "bench stays within the model" 2 "the model was made for 512 positions" cadenza bench --prompt-tokens 512
refused "bench: so do new tokens" 2 "the model was made for 512 positions" cadenza bench --context 500 --new-tokens 20
refused "bench: an option that is none" 2 "did you mean --rounds?" cadenza bench --round5
refused "bench: activations of no kind" 2 "activations: there is no kind 'bf61', expected one of auto, f32, int8, bf16, bf16x1, bf16x3: did you mean 'bf16'?" cadenza bench --activations bf61
refused "run: a KV cache of no type" 2 "KV cache: there is no type 'q8_1'" cadenza run --kv-cache q8_1 -p a
refused "bench: a file that cannot be" 1 "cannot be written" bash -c "cadenza bench ${small[*]} --json /nowhere/x.json >/dev/null"

# --- pipelines, with no rebuild between
cat >greedy.ini <<'EOF'
[pipeline]
strategy = greedy
[generation]
max_new_tokens = 24
EOF
cat >sampling.ini <<'EOF'
[pipeline]
strategy = sample
[generation]
max_new_tokens = 24
seed = 11
temperature = 2.5
top_p = none
EOF
cat >ban.lua <<'EOF'
return cadenza.processor {
  id = "org.example.ban", version = "1.0.0",
  params = { token = { 845, 0, 4095, "the token to ban", integer = true } },
  apply = function(p, ids, row) row[p.token] = -math.huge end,
}
EOF
printf '[pipeline]\nstrategy = greedy\nprocessors = lua:ban.lua\n[generation]\nmax_new_tokens = 24\n' >ban.ini
cat >second.lua <<'EOF'
-- Takes the second best token at the first step, then the best.
return cadenza.strategy {
  id = "org.example.second", version = "1.0.0",
  run = function(ctx)
    local first = true
    while not ctx:done() do
      local scores = ctx:forward()
      ctx:process(scores)
      local ids = scores:row(1):topk(2)
      ctx:append(first and ids[2] or ids[1])
      first = false
    end
  end,
}
EOF
printf '[pipeline]\nstrategy = lua:second.lua\n[generation]\nmax_new_tokens = 24\n' >second.ini
printf '[pipeline]\npress = qfilter\n[qfilter]\nfilters = own.safetensors\ncompression_ratio = 0.5\n' >file.ini
printf '{"prompt": "a", "kwargs": {"qfilter.filters": "/etc/hostname"}}\n' >file.json
refused 'a request names no file' 2 'request: qfilter.filters: a file is named by the pipeline or the command line' cadenza run --pipeline file.ini --request file.json
run_with() { cadenza run --pipeline "$1" -p 'river (noun): a'; }
one=$(run_with greedy.ini) two=$(run_with sampling.ini) three=$(run_with ban.ini) four=$(run_with second.ini)
differ "sampling differs from greedy" "$one" "$two"
differ "a Lua processor changes the text" "$one" "$three"
differ "a Lua strategy changes the text" "$one" "$four"
five=$(cadenza run --custom-generate "$build/lib/cadenza/simple_sample" -s temperature=0.0 -s max_new_tokens=8 -p 'river (noun): a')
differ "a package changes the text" "$one" "$five"
sed -i 's/845/1535/' ban.lua
differ "an edited script counts at the next run" "$three" "$(run_with ban.ini)"
c=$(cadenza run --custom-generate "$build/lib/cadenza/sampling_with_kvcache" --seed 3 -s temperature=0.9 -s top_k=20 -s max_new_tokens=16 -p 'music is' --json)
lua=$(cadenza run --custom-generate "$root/plugins/sampling_with_kvcache_lua" --seed 3 -s temperature=0.9 -s top_k=20 -s max_new_tokens=16 -p 'music is' --json)
strip() { sed 's/"timings".*//' <<<"$1"; }
same "the package in C and in Lua agree" "$(strip "$c")" "$(strip "$lua")"
case $c in *'"results": {'*'"logprobs"'*) good ;; *) bad "it returns its own results: $c" ;; esac
check "explain --plan names the walk" bash -c "cadenza explain hf $model -s do_sample=yes -s top_k=5 --plan | grep -q 'top_k  *walk 1'"
check "CADENZA_PLAN=off runs it by itself" bash -c "CADENZA_PLAN=off cadenza explain hf $model -s do_sample=yes -s top_k=5 --plan | grep -q 'top_k  *by itself'"
check "explain shows where a value came from" bash -c "cadenza explain greedy.ini $model | grep -q 'greedy.ini:4'"
same "help of a command" "$(cadenza help run)" "$(cadenza run --help)"
same "help of a plugin" "$(cadenza help top_p)" "$(cadenza plugin info top_p)"
printf '[pipeline]\nprocessors = temperature, top_p\n[generation]\ntemperature = 0.5\ndo_sample = yes\n' >once.ini
logprob() { grep -o '"logprobs": [^,]*'; }
same "a processor that is named and has a parameter runs once" "$(cadenza run --pipeline once.ini -p a -n 1 --seed 1 --output-logprobs --json | logprob)" \
    "$(cadenza run --temperature 0.5 --do-sample -p a -n 1 --seed 1 --output-logprobs --json | logprob)"
same "explain shows it once, where it is named" "$(cadenza explain once.ini | grep -cE '^  +17 +temperature +0.5|^  +18')" 1
printf '[generaton]\nmax_new_tokens = 3\n' >slip.ini
warned="cadenza: warning: slip.ini:1: [generaton] is used by nothing: did you mean 'generation'?"
same "a section that nothing uses is told" "$(cadenza run "${greedy[@]}" --pipeline slip.ini -p 'music is' 2>&1 >/dev/null | forget_notes)" "$warned"
same "--log none keeps it quiet" "$(cadenza run "${greedy[@]}" --log none --pipeline slip.ini -p 'music is' 2>&1 >/dev/null | forget_notes)" ""
refused "a profile that is misspelt" 1 "did you mean the profile 'llamacpp'?" cadenza run --pipeline lamacpp -p a
refused "a profile that is misspelt in a file" 1 "slip.ini:2: use = vlm: vlm: no such file; did you mean the profile 'vllm'?" \
    bash -c 'printf "[pipeline]\nuse = vlm\n" >slip.ini && cadenza run --pipeline slip.ini -p a'
check "plugins are listed" bash -c 'cadenza plugin list | grep -q top_k'
check "a plugin is described" bash -c 'cadenza plugin info top_p | grep -q "top_p"'

# --- a package of one's own, as it is written
for kind in processor criterion strategy drafter observer loader scheduler press; do
    for lang in lua c; do
        [[ $kind-$lang != loader-lua && $kind-$lang != scheduler-lua ]] || continue
        name=new_${kind}_$lang
        check "a new $kind in $lang" cadenza plugin new "$name" --kind $kind --lang $lang
        [ $lang = lua ] || (cd "$name" && cc -std=c17 -Wall -Wextra -Werror -shared -fPIC -I"$root/sdk/include" $name.c -o $name.so) || bad "$name does not compile"
        check "$name is described" bash -c "cadenza plugin info ./$name | grep -q '^id  *org.example.new-$kind-$lang\$'"
        check "$name passes the conformance kit" cadenza plugin test "./$name" --seed 1
        if [ $kind = scheduler ]; then
            check "$name serves" cadenza serve --plugin "./$name" --config "$name/server.ini" --check-config
        else
            check "$name runs" cadenza run --plugin "./$name" --pipeline "$name/story.ini" -p 'river (noun):'
        fi
        check "$name passes its own test" sh "$name/test.sh"
        same "$name forgets the template's name" "$(grep -rlE 'my[-_]' --include='*.[cilm]*' --include='*.sh' "$name")" ""
    done
done
refused "a package that is there" 1 "new_strategy_c is there already" cadenza plugin new new_strategy_c
refused "a kind that is misspelt" 2 "did you mean 'processor'?" cadenza plugin new other --kind proccessor
refused "a language that is misspelt" 2 "did you mean 'c'?" cadenza plugin new other --lang C
again=$(cadenza plugin test ./new_processor_lua -s 'penalty=a b' --seed 1 --only runs 2>&1 | grep '^again:')
same "what repeats a check" "$again" "again: cadenza plugin test ./new_processor_lua -s 'penalty=a b' --seed 1 --only runs"
refused "a kind without a template" 2 "kinds are processor" cadenza plugin new other --kind poet
refused "a name that names nothing" 2 "'9x'" cadenza plugin new 9x

# --- state that follows rows: through beams, and through tokens that are taken back
cat >count.lua <<'EOF'
local function check(state, ids, ctx)
  if state.n ~= #ids - ctx.prompt_len then error("counted " .. state.n .. " of " .. #ids - ctx.prompt_len) end
end
local function begin(ctx) return { n = 0 } end
local function accept(p, state, token) state.n = state.n + 1 end
return {
  cadenza.processor { id = "org.example.count", version = "1.0.0", needs_ids = true, begin = begin, accept = accept,
    apply = function(p, ids, row, ctx) check(ctx.state, ids, ctx) end },
  cadenza.criterion { id = "org.example.count-too", version = "1.0.0", begin = begin, accept = accept,
    test = function(p, ids, ctx) check(ctx.state, ids, ctx) return false end },
}
EOF
cp "$root/tests/whole/composition/backtrack.lua" .
printf '[pipeline]\nstrategy = lua:backtrack.lua\nprocessors = lua:count.lua\nstopping = org.example.count-too\n[generation]\nmax_new_tokens = 40\n' >taken.ini
printf '[pipeline]\nprocessors = lua:count.lua\nstopping = org.example.count-too\n[generation]\nmax_new_tokens = 24\nnum_beams = 4\ndo_sample = no\n' >beams.ini
check "a script's state follows tokens that are taken back" cadenza run --pipeline taken.ini -p 'She was'
check "a script's state follows beams" cadenza run --pipeline beams.ini -p 'She was'

# --- a file of requests
for i in $(seq 1 200); do
    case $((i % 4)) in
    0) echo "{\"prompt\": \"river (noun):\", \"seed\": $i, \"kwargs\": {\"max_new_tokens\": 12}}" ;;
    1) echo "{\"prompt\": \"music is\", \"pipeline\": \"sampling.ini\", \"seed\": $i}" ;;
    2) echo "{\"prompt\": \"A dog is a kind of\", \"pipeline\": \"ban.ini\"}" ;;
    3) echo "{\"prompt\": \"window (noun):\", \"pipeline\": \"second.ini\"}" ;;
    esac
done >many.jsonl
ids_only() { sed 's/.*"ids": \(\[[^]]*\]\).*/\1/' "$1"; }
check "200 requests run" cadenza run --input many.jsonl --output many.out
same "200 answers" "$(wc -l <many.out | tr -d ' ')" 200
head -24 many.jsonl | while read -r line; do
    echo "$line" >one.jsonl
    cadenza run --input one.jsonl || echo failed
done >single.out
same "they equal single runs" "$(head -24 many.out >head.out; ids_only head.out)" "$(ids_only single.out)"
printf '{"prompt": "music is", "seed": 1}\n{"prompt": \n{"prompt": "dog", "kwargs": {"temprature": 1}}\n\n{"prompt": "music is", "seed": 1}\n' >mixed.jsonl
cadenza run --input mixed.jsonl >mixed.out 2>mixed.err
same "a wrong line fails alone" "$?" 1
same "the others are answered" "$(grep -c '"text"' mixed.out) $(grep -c '"error"' mixed.out) $(wc -l <mixed.out | tr -d ' ')" "2 2 4"
check "the sentence names the line" grep -q 'line 2' mixed.out
# an answer is written as soon as those before it are, while the pipe that lines come from is still open
mkfifo waiting
cadenza run --input waiting --output early.out &
early=$!
exec 9>waiting
head -n 1 many.jsonl >&9
for _ in $(seq 600); do [ -s early.out ] && break; sleep 0.1; done
same "an answer does not wait for the next line" "$(wc -l <early.out | tr -d ' ')" 1
exec 9>&-
wait $early
# what a run left that was killed in the middle of a line is kept, but for that line; a cancelled answer is given again
{
    head -n 20 many.out
    sed -n 21p many.out | sed 's/"finish_reason": "[a-z]*"/"finish_reason": "cancelled"/'
    sed -n 22p many.out
    sed -n 23p many.out | head -c 50
} >resumed.out
check "a run resumes" cadenza run --input many.jsonl --output resumed.out --resume
same "resumed answers are those of one run" "$(ids_only resumed.out)" "$(ids_only many.out)"
check "a run that was done resumes" cadenza run --input many.jsonl --output resumed.out --resume
same "nothing is answered again" "$(wc -l <resumed.out | tr -d ' ')" 200
refused "answers to other requests" 1 "has 200 answers, mixed.jsonl only 4 requests" cadenza run --input mixed.jsonl --output resumed.out --resume
refused "--resume without a file" 2 "--resume goes with --input and --output" cadenza run --input mixed.jsonl --resume

# --- a decode loop of one's own with a call for sampling
cat >own_sample.lua <<'END'
return cadenza.strategy { id = "org.example.own-sample", version = "1.0.0", samples = true, run = function(ctx)
  while not ctx:done() do ctx:append_rows(ctx:sample(ctx:forward(), 1.4, 30, 0.95)) end
end }
END
drawn=(-s max_new_tokens=30 -s num_return_sequences=2 --seed 5 -p 'music is')
same "a Lua loop's sample is the strategy's" "$(cadenza run --custom-generate own_sample.lua -s do_sample=yes "${drawn[@]}")" \
    "$(cadenza run -s do_sample=yes -s temperature=1.4 -s top_k=30 -s top_p=0.95 "${drawn[@]}")"

# --- conversations
echo '[{"role": "user", "content": "What does lighthouse mean?"}]' >talk.messages.json
echo '{"enable_thinking": false, "messages": [{"role": "user", "content": "What does lighthouse mean?"}]}' >talk.context.json
same "run answers messages as chat does" "$(cadenza run --messages talk.messages.json "${greedy[@]}")" \
    "$(echo 'What does lighthouse mean?' | cadenza chat "${greedy[@]}")"
same "a context says the same" "$(cadenza run --messages - "${greedy[@]}" <talk.context.json)" \
    "$(cadenza run --messages talk.messages.json "${greedy[@]}")"
same "two conversations are a batch" "$(echo '{"messages": [[{"role": "user", "content": "What does lighthouse mean?"}], [{"role": "user", "content": "Hi"}]]}' |
    cadenza run --request - "${greedy[@]}" | sed -n 1p)" "$(cadenza run --messages talk.messages.json "${greedy[@]}")"
refused "messages that are none" 1 "expected a list of messages" cadenza run --messages <(echo '{"prompt": "a"}')
refused "messages and a prompt" 2 "messages" cadenza run --request <(echo '{"prompt": "a", "messages": []}')

same "whole words are the same text" "$(cadenza run --stream-words -p 'river (noun): a' "${greedy[@]}")" "$(cadenza run -p 'river (noun): a' "${greedy[@]}")"
refused "whole words in JSON" 2 "--stream-words, --show-prompt and --show-special say how text is written; --json" cadenza run --stream-words --json -p a
refused "whole words at the end" 2 "--stream-words writes text while it comes" cadenza run --stream-words --no-stream -p a
refused "the prompt in JSON" 2 "--input write JSON" cadenza run --show-prompt --input prompts.jsonl
river=$(cadenza run -p 'river (noun): a' "${greedy[@]}")
same "the prompt is shown" "$(cadenza run --show-prompt -p 'river (noun): a' "${greedy[@]}")" "river (noun): a$river"
same "the prompt is shown when the answer is whole" "$(cadenza run --no-stream --show-prompt -p 'river (noun): a' "${greedy[@]}")" "river (noun): a$river"
same "the prompt is shown by words" "$(cadenza run --stream-words --show-prompt -p 'river (noun): a' "${greedy[@]}")" "river (noun): a$river"
marked=$(cadenza run --show-special -p 'river (noun): a' "${greedy[@]}")
[ "$marked" != "$river" ] && same "special tokens are shown" "$(sed 's/<[^<>]*>//g' <<<"$marked")" "$river"
same "special tokens are shown at the end" "$(cadenza run --special --no-stream -p 'river (noun): a' "${greedy[@]}")" "$marked"
rows=$(cadenza run --show-prompt --show-special -p 'river (noun): a' -s num_beams=3 -s num_return_sequences=2 -s do_sample=no -n 40)
same "every row has its prompt" "$(grep -c '^river (noun): a' <<<"$rows")" 2
same "and its special tokens" "$(grep -c '<' <<<"$rows")" 2

# --- chat
same "chat by whole words" "$(echo 'What does lighthouse mean?' | cadenza chat --stream-words "${greedy[@]}")" \
    "A lighthouse is a tower with a light that gives warning of shoals to passing ships."
printf 'What does river mean?\n/save marked.json\n' | cadenza chat --show-special "${greedy[@]}" >marked.out
grep -q '<' marked.out && good || bad "chat shows special tokens: $(cat marked.out)"
grep -q '<' marked.json && bad "a special token became part of a turn: $(cat marked.json)" || good
same "chat answers from a pipe" "$(echo 'What does lighthouse mean?' | cadenza chat "${greedy[@]}")" \
    "A lighthouse is a tower with a light that gives warning of shoals to passing ships."
cp -r "$model" thinking && chmod -R u+w thinking
echo "{#- <think> </think> -#}{% for m in messages %}<|{{ m.role }}|>{{ m.reasoning_content }}{{ m.content }}<|end|>{% endfor %}<|assistant|>" \
    >thinking/chat_template.jinja
cat >thinks.lua <<'EOF'
return cadenza.strategy {
  id = "org.example.thinks", version = "1.0.0", one_row = true,
  run = function(ctx)
    for _, id in ipairs(ctx:encode("<think>\nLet me see.\n</think>\n\nIt is wet.")) do ctx:append(id) end
  end,
}
EOF
printf '[pipeline]\nstrategy = lua:thinks.lua\n' >thinks.ini
printf 'What does river mean?\nAnd so?\n/save thoughts.json\n' | cadenza chat thinking --pipeline thinks.ini >thoughts.out
same "chat keeps reasoning out of an answer" "$(cat thoughts.out)" $'It is wet.\nIt is wet.'
same "and saves it beside" "$(grep -c '"content": "It is wet.", "reasoning_content": "Let me see."}' thoughts.json)" 2
printf '/load thoughts.json\n/save again.json\n' | cadenza chat thinking 2>/dev/null
check "and reads it again" cmp thoughts.json again.json
printf 'What does river mean?\n/undo\n/set max_new_tokens=3\nWhat is water?\n/save talk.json\n/nonsense\n/quit\n' | cadenza chat "${greedy[@]}" >chat.out 2>chat.err
same "chat undo, set and save" "$(grep -c role talk.json)" 2
check "an unknown chat command is told" grep -q 'unknown command /nonsense' chat.err
# An answer reads what is new alone, and is what the whole conversation read anew gives.
printf 'What does river mean?\nWhat is water?\n/save talk.json\nAnd dog?\n/context\n' | cadenza chat "${greedy[@]}" >chat.out
python3 - talk.json >talk.messages.json <<'EOF'
import json, sys
print(json.dumps(json.load(open(sys.argv[1])) + [{"role": "user", "content": "And dog?"}]))
EOF
same "chat with its KV cache answers as without" "$(sed -n 3p chat.out)" "$(cadenza run --messages talk.messages.json "${greedy[@]}")"
check "chat reads only what is new" grep -qE 'the last answer read [0-9] and found [0-9]{2} in the KV cache' chat.out
same "chat keeps its KV cache with guidance too" "$(head -n 3 <<<$'What does river mean?\nWhat is water?\n/context' | cadenza chat "${greedy[@]}" -s guidance_scale=1.5 |
    grep -cE '^A river|^The noun water|found [0-9]{2} in the KV cache')" 3
for i in {1..30}; do echo 'What does lighthouse mean?'; done >full.txt
cadenza chat "${greedy[@]}" <full.txt >chat.out 2>chat.err
same "a full conversation ends a pipe's chat" "$?: $(grep -c "the model's context is 512: /trim forgets the oldest" chat.err)" "1: 1"
{
    head -n 14 full.txt
    printf '/trim\n/context\nWhat does river mean?\n'
} | cadenza chat "${greedy[@]}" >chat.out 2>chat.err
check "/trim says what it forgot" grep -qE '[0-9]+ questions forgotten; the conversation has [0-9]+ of 512 tokens' chat.err
same "chat goes on after /trim" "$(tail -n 1 chat.out)" "A river is a large natural stream of water (larger than a creek)."

# --- tokenize, model, version, help
same "tokenize" "$(cadenza tokenize "$model" -p 'river (noun): a' | tr -d ' ')" "[360,336,292,305,299,261]"
same "tokenize back" "$(echo '[360,336,292,305,299,261]' | cadenza tokenize "$model" --decode)" '"river (noun): a"'
check "model info" bash -c "cadenza model info | grep -q '5.4 million'"
check "model info as JSON" bash -c "cadenza model info --json | grep -q '\"parameters\": 5401856'"
for command in run chat explain plugin model tokenize template grammar detect steer config score parity version; do
    check "help of $command" bash -c "cadenza $command --help | grep -q '^Examples:'"
done
check "help" bash -c 'cadenza --help | grep -q CADENZA_CPU'

# --- what is wrong is said in one sentence
refused "no such command" 2 "did you mean 'run'" cadenza rnu
refused "no such flag" 2 "did you mean '--help'" cadenza --hepl
refused "no such model" 1 "nowhere" cadenza run nowhere -p a
refused "unknown setting" 2 "temperature" cadenza run -s temprature=1 -p a
refused "setting out of range" 2 "top_k" cadenza run -s do_sample=yes -s top_k=-3 -p a
refused "id out of the vocabulary" 2 "4095" cadenza run --ids 4096
refused "no such pipeline" 1 "missing.ini" cadenza run --pipeline missing.ini -p a
printf '[generation]\ntemprature = 1\n' >typo.ini
refused "a typo in a pipeline" 2 "typo.ini:2" cadenza run --pipeline typo.ini -p a
printf '[pipeline]\nstrategy = gredy\n' >typo2.ini
refused "an unknown strategy" 1 "greedy" cadenza run --pipeline typo2.ini -p a
printf 'return cadenza.processor { apply = function( }' >broken.lua
printf '[pipeline]\nprocessors = lua:broken.lua\n' >broken.ini
refused "a script with a mistake" 1 "broken.lua:1" cadenza run --pipeline broken.ini -p a
printf 'return cadenza.processor { apply = function(p, ids, row) local x = nil + 1 end }' >failing.lua
printf '[pipeline]\nprocessors = lua:failing.lua\n' >failing.ini
cadenza run --pipeline failing.ini -p 'music is' >out 2>err
same "a script that fails" "$?" 1
check "its sentence has file and line" grep -q 'failing.lua:1' err
printf 'return cadenza.processor { apply = function(p, ids, row) while true do end end }' >endless.lua
printf '[pipeline]\nprocessors = lua:endless.lua\n' >endless.ini
cadenza run --pipeline endless.ini -p 'music is' >out 2>err
same "a script that never ends" "$?" 1
check "its sentence names the budget" grep -q 'budget' err
mkdir truncated && cp "$model"/*.json truncated/ && head -c 100000 "$model/model.safetensors" >truncated/model.safetensors
refused "a truncated model" 1 "model.safetensors" cadenza run truncated -p a
refused "a truncated model, checked" 1 "model.safetensors" cadenza model check truncated
refused "a folder without cases" 1 "truncated/cases.json: no such file" cadenza parity truncated
same "and no table's head for it" "$(cadenza parity truncated 2>/dev/null)" ""
printf '{"cases": 3}' >no_cases.json
printf '{"cases": [7, {"kind": "sonnet"}]}' >odd_cases.json
cadenza parity odd_cases.json >out 2>err
same "a case that is no object, and one of no known kind" "$?" 1
check "the first failed" grep -q 'case 1 of 2: expected an object, found' out
printf '{"cases": [{"kind": "sonnet"}]}' >odd_cases.json
refused "what was not compared" 1 "1 cases were not compared" bash -c "cadenza parity odd_cases.json >/dev/null"
check "it is allowed when asked" cadenza parity odd_cases.json --allow-unsupported
printf '{"cases": []}' >odd_cases.json
refused "nothing to compare" 1 "nothing was compared" bash -c "cadenza parity odd_cases.json >/dev/null"
refused "a file without cases" 1 'no_cases.json: expected an object with a list of "cases"' cadenza parity no_cases.json
same "nor for a file that cannot be read" "$(cadenza parity no_cases.json 2>/dev/null)" ""
same "a good model, checked" "$(cadenza model check 2>&1 | tail -1)" "nothing wrong was found"
cp -r "$model" pinned && (cd pinned && sha256sum ./*.json model.safetensors | sed 's, \./, ,' >SHA256SUMS)
check "its hashes are found" grep -q 'tokenizer.json.*as recorded in pinned/SHA256SUMS' <(cadenza model check pinned)
printf '\377\177' | dd of=pinned/model.safetensors bs=1 seek=$(($(stat -c %s pinned/model.safetensors) - 100)) conv=notrunc 2>dd.err
cadenza model check pinned >out 2>err </dev/null
same "a model with a NaN and another hash, checked" "$?" 1
check "the hash is named" grep -q '^cadenza: pinned/model.safetensors: its SHA-256 is .* expected' err
check "the NaN is named" grep -q '^cadenza: .* has 1 NaN among .* values, the first at' err
same "no progress where there is no terminal" "$(wc -l <err)" 2
check "a folder becomes a GGUF file" cadenza model convert "$model" talking.gguf
echo '{"messages": [{"role": "user", "content": "What does river mean?"}], "add_generation_prompt": true}' >talk.json
talk=$(cadenza run --messages talk.json "${greedy[@]}")
same "a GGUF file answers messages" "$(cadenza run talking.gguf --messages talk.json "${greedy[@]}")" "$talk"
same "a GGUF file chats" "$(echo 'What does river mean?' | cadenza chat talking.gguf "${greedy[@]}")" "$talk"
same "a GGUF file's template" "$(cadenza template render talking.gguf --context talk.json)" "$(cadenza template render --context talk.json)"
same "a good GGUF file, checked" "$(cadenza model check talking.gguf 2>&1 | tail -1)" "nothing wrong was found"
check "a GGUF file is described" grep -q 'chat template *yes' <(cadenza model info talking.gguf)
cp -r "$model" shrinking
{
    echo 'What does river mean?'
    for i in $(seq 1 600); do [ "$(wc -l <shrunk.out)" -lt 1 ] && sleep 0.05; done
    truncate -s 5000000 shrinking/model.safetensors
    echo 'What does river mean?'
} | cadenza chat shrinking "${greedy[@]}" >shrunk.out 2>err
same "a model cut while it runs" "$?" 1
check "it is a sentence" grep -q '^cadenza: shrinking/model.safetensors: was cut from' err
mkdir strange && sed 's/"llama"/"lama"/' "$model/config.json" >strange/config.json
refused "an unknown architecture" 1 "lama" cadenza run strange -p a
refused "text that is not UTF-8" 1 "UTF-8" cadenza run -p $'caf\xe9'
refused "a request with a typo" 2 "prompt" cadenza run --request <(echo '{"promt": "a"}')
refused "not a plugin" 1 "typo.ini" cadenza run --plugin typo.ini -p a
refused "a chat seed that is none" 2 "seed" cadenza chat --seed nothing
refused "a chat flag that is none" 2 "chat: --zyxwvu is not an option; see" cadenza chat --zyxwvu nothing
refused "a misspelt flag" 2 "did you mean --system?" cadenza chat --sytem=short
refused "a flag without its value" 2 "run: --pipeline needs a value" cadenza run -p a --pipeline
refused "a letter without its value" 2 "run: -p needs a value" cadenza run -p
same "two texts, cut and filled up" "$(cadenza tokenize -p 'river' --pair 'a large river' --max-length 3 --pad-multiple 4 | tr -d ' ' | cut -d: -f1-4)" "$(cadenza tokenize -p 'river' --pair 'a large river' --max-length 3 --pad-to 4 | tr -d ' ' | cut -d: -f1-4)"
check "an encoding is JSON with offsets" grep -q '"offsets": \[\[0, 2\]' <(cadenza tokenize -p 'river' --json)
check "pairs come a line each" grep -q '"sequence_ids": \[0, 1\]' <(printf '["a", "b"]\n' | cadenza tokenize --jsonl --json)
same "the last of a thousand choices" "$(cadenza grammar check --choice "$(seq -s, 1 1000)" -p 1000)" "$(cadenza grammar check --regex 1000 -p 1000)"
same "no choice at all" "$(cadenza grammar check --choice "$(seq -s, 1 1000)" -p 1001)" "$(cadenza grammar check --regex a -p 1001)"
same "a schema within the line" "$(cadenza run --json-schema '{"const": "a=1"}' -p a)" '"a=1"'
same "a schema within the line, asked" "$(cadenza grammar check --json-schema ' {"type": "integer"}' -p 12)" '{"accepts": true, "viable": true}'
refused "a pattern of too many states" 1 "grammar_max_states" cadenza run --grammar-max-states 100 --regex '(a{50}b){50}' -p a
same "a limit ends the request that meets it, not the one that shares its constraint" '"finish_reason": "error" grammar_max_states "finish_reason": "length"' \
    "$(printf '{"prompt": "a", "seed": 1, "kwargs": {"regex": "[ab]*a[ab]{8}", "max_new_tokens": 200, "min_new_tokens": 200, "do_sample": %s}}\n' 'true, "temperature": 9.0' false |
        cadenza run --grammar-max-states 100 --input - 2>&1 | grep -o 'grammar_max_states\|"finish_reason": "[a-z]*"' | xargs -d '\n')"
refused "a pattern of too many bytes" 1 "the limit is 10 (grammar_max_bytes)" cadenza run --grammar-max-bytes 10 --regex 'abcdefghijk' -p a
refused "a truncation that is none" 2 "expected longest_first, only_first or only_second" cadenza tokenize -p a --truncation middle
refused "a length that is none" 2 "--max-length many" cadenza tokenize -p a --max-length many
refused "a letter that is none" 2 "tokenize: -z is not an option" cadenza tokenize -z
refused "a value that is not taken" 2 "model: --json takes no value" cadenza model info --json=yes
refused "a context to check at" 2 "check takes no --json, no --context and no --device" cadenza model check --context 5
refused "a model verb that is none" 2 "found inspect" cadenza model inspect
refused "the beginning of two flags" 2 "explain: --pl may be --plan or --plugin" cadenza explain --pl a
for command in run chat lua explain plugin model tokenize template grammar detect steer config score bench parity completion manual version; do
    refused "a misspelt flag of $command" 2 "$command: --hepl is not an option; did you mean --help?" cadenza $command --hepl
done
refused "a config that cannot be" 2 "max_new_tokens = 0" cadenza config validate -s max_new_tokens=0
refused "a config verb that is none" 2 "expected show, validate or save" cadenza config list
refused "a misspelt parameter of a config" 2 "did you mean 'top_k'?" cadenza config show -s topk=3
refused "a config that would do nothing" 2 "not saved: top_p" cadenza config save -s top_p=0.5 -o saved.json
printf '{}' >empty.json
same "a config shows what is set" "$(cadenza config show empty.json -s top_k=3 | tr -d ' \n')" '{"top_k":3}'
same "without a path it is the shipped model's, as for run" "$(cadenza config show)" "$(cadenza config show "$model")"
same "and so for explain" "$(cadenza explain hf)" "$(cadenza explain hf "$model")"
refused "nothing to score" 2 "give --text, --file, --ids, -p or --outputs" cadenza score
refused "two things to score" 2 "give one of" cadenza score --text a --ids 5
refused "an empty text" 2 "nothing to score" cadenza score --text ''
refused "ids that are none" 2 "--ids 1,,2" cadenza score --ids 1,,2
refused "an id that there is not" 2 "vocabulary" cadenza score --ids 999999
refused "a text that is nowhere" 1 "cannot be opened" cadenza score --file nowhere
refused "tensors that are nowhere" 1 "no such file" cadenza score --outputs nowhere
refused "a window of one" 2 "at least 2" cadenza score --text a --window 1
refused "a window beyond the context" 2 "context" cadenza score --text a --window 99999
refused "a stride that skips" 2 "less than the window" cadenza score --text a --window 8 --stride 8
same "a text in a model whose context has no end" "$(cadenza score "$root/tests/golden/mamba2" --ids 5,6,7,8,9 --json | grep -o '"n_scored": [0-9]*')" '"n_scored": 4'
refused "a file for outputs that cannot be" 1 "cannot be written" cadenza run -p a -s max_new_tokens=1 --outputs no/such/file
cadenza run -p 'music is' -s max_new_tokens=3 --outputs unscored.safetensors >/dev/null
refused "tensors without scores" 1 "output_scores" cadenza score --outputs unscored.safetensors
cadenza run -p 'music is' -s num_beams=3 -s max_new_tokens=3 -s output_scores=yes --outputs scored.safetensors --json >scored.json
same "scores of saved beams are those of the answer" "$(cadenza score --outputs scored.safetensors --json | tr -d '{} ')" "$(grep -o '"transition_scores": [^a-z]*\]\]' scored.json | tr -d ' ')"
top=$(cadenza score --context 'river (noun):' --text ' a large stream' --top 2)
same "two likeliest tokens of each place" "$(grep -cE '^ {10}"[^,]*" -[0-9.]+, "[^,]*" -[0-9.]+$' <<<"$top")" 3
same "the others are as without" "$(grep -vE '^ {10}"' <<<"$top")" "$(cadenza score --context 'river (noun):' --text ' a large stream')"
topped() { sed 's/.*"top_logprobs": //; s/, "seed".*//; s/}$//'; }
same "the same as a request's" "$(cadenza score --text 'music is a river' --top 3 --json | topped)" \
    "$(echo '{"mode": "score", "prompt": "music is a river", "kwargs": {"output_scores_top": 3}}' | cadenza run --request - --json | topped)"
same "windows are seen through" "$(cadenza score --text 'music is a river' --top 1 --window 3 --json | grep -o '"logprob":' | wc -l | tr -d ' ')" \
    "$(cadenza score --text 'music is a river' --top 1 --json | grep -o '"logprob":' | wc -l | tr -d ' ')"
same "of an answer, the taken is the likeliest" "$(cadenza score -p 'river (noun): a' --no-do-sample -n 5 --top 2 | grep -c '^ \{10\}"')" 5
refused "the likeliest of saved tensors" 2 "--top goes with a text or -p" cadenza score --outputs scored.safetensors --top 2
refused "none of the likeliest" 2 "--top 0: expected a number of tokens above 0" cadenza score --text a --top 0
same "a window as long as the text" "$(cadenza score --text 'music is a river' --window 500 --json)" "$(cadenza score --text 'music is a river' --json)"
refused "nothing to look for" 2 "watermarking_config" cadenza detect -p hello
refused "a misspelt watermark setting" 2 "did you mean 'bias'?" cadenza detect -w '{"bais": 4.0}' -p hello
refused "too little to look at" 1 "too few" cadenza detect -w '{"bias": 4.0}' --ids 5
refused "a threshold that is none" 2 "--z-threshold x" cadenza detect -w '{}' --z-threshold x -p hello
refused "a detector that is none" 1 "config.json" cadenza detect -w '{"type": "synthid", "ngram_len": 2, "keys": [1]}' --detector nowhere -p 'hello to you'
refused "a watermark with a typo" 2 "did you mean 'bias'?" cadenza run -s 'watermarking_config={"bais": 4.0}' -p a
refused "a variant this build lacks" 2 "avx2" env CADENZA_CPU=avx3 cadenza run -p a

# --- converting
shipped=$model
cadenza model convert "$shipped" shipped.gguf >/dev/null 2>&1 && good || bad "a folder to a file: status $?"
same "a file continues as its folder" "$(cadenza run shipped.gguf -p 'music is' --seed 3)" "$(cadenza run -p 'music is' --seed 3)"
cadenza model quantize shipped.gguf shipped-q4.gguf --type Q4_K >quantized.out 2>quantized.err && good || bad "quantizing: status $?"
grep -q '36 Q4_K, 1 Q6_K' quantized.out && good || bad "what quantize reports: $(cat quantized.out)"
grep -q '6 matrices keep their type' quantized.err && good || bad "what quantize keeps: $(cat quantized.err)"
same "at load as stored" "$(cadenza run shipped-q4.gguf -p 'music is' --seed 3)" "$(cadenza run --quantize q4_k -p 'music is' --seed 3)"
refused "a file that is there" 1 "--force" cadenza model convert "$shipped" shipped.gguf
refused "a file from a file" 2 "becomes a folder" cadenza model convert shipped.gguf other.gguf
refused "a type that is none" 2 "expected one of q8_0" cadenza model quantize shipped.gguf other.gguf --type q4_9
refused "a type that is nearly one" 2 "did you mean 'q5_k'?" cadenza model quantize shipped.gguf other.gguf --type q5k
refused "no type" 2 "expected --type" cadenza model quantize shipped.gguf other.gguf
refused "a type of blocks for convert" 2 "expected one of f32, f16, bf16" cadenza model convert "$shipped" other.gguf --type q8_0
refused "a type at load that is none" 2 "quantize: there is no type" cadenza run --quantize q4_9 -p a
refused "a KV cache in what is no type" 2 "KV cache: there is no type 'bf17' here, expected one of f32, f16, bf16, q8_0, q4_0: did you mean 'bf16'?" cadenza run --kv-cache bf17 -p a
same "a KV cache in blocks, whatever computes" "$(CADENZA_CPU=scalar cadenza run --kv-cache q8_0 -p 'music is' --seed 3)" "$(cadenza run --kv-cache q8_0 --threads 1 -p 'music is' --seed 3)"
same "a KV cache in smaller blocks, whatever computes" "$(CADENZA_CPU=scalar cadenza run --kv-cache q4_0 -p 'music is' --seed 3)" "$(cadenza run --kv-cache q4_0 --threads 1 -p 'music is' --seed 3)"
grep -q 'in q4_0' <<<"$(cadenza model info "$shipped")" && good || bad "model info on a KV cache in blocks"
same "threads and memory spread over nodes" "$(cadenza run --numa spread --quantize q8_0 -p 'music is' --seed 3)" "$(cadenza run --quantize q8_0 -p 'music is' --seed 3)"
grep -q 'profile: numa: ' <<<"$(cadenza run --numa spread --profile -p 'music is' -s max_new_tokens=2 2>&1 >/dev/null)" && good || bad "what a profile says on nodes"
grep -q 'numa' <<<"$(cadenza run --profile -p 'music is' -s max_new_tokens=2 2>&1 >/dev/null)" && bad "a profile on nodes unasked" || good
grep -q '^memory nodes [0-9]' <<<"$(cadenza version --verbose)" && good || bad "version on nodes"
refused "a way to spread that is none" 2 "numa: there is no 'on', expected off or spread" cadenza run --numa on -p a
refused "a way to spread that is none, of parity" 2 "numa: there is no 'on', expected off or spread" cadenza parity --numa on "$root/tests/golden/llama_gqa"
refused "a KV cache in other blocks" 2 "KV cache: there is no type 'q4_1'" cadenza run --kv-cache q4_1 -p a
refused "blocks of blocks at load" 1 "already" cadenza run shipped-q4.gguf --quantize q8_0 -p a
refused "a misspelt verb" 2 "expected \`info\`" cadenza model convrt

# --- what newcomers type
refused "a device that is nearly one" 2 "did you mean 'cuda'?" cadenza model info --device cudda
refused "a device's number that is none" 2 "device 'cuda:x': expected cuda:0, cuda:1 and so on" cadenza run --device cuda:x -p a
refused "a report where none can be" 1 "/nowhere/x.json: cannot be written" cadenza bench --json /nowhere/x.json
refused "an observer that is nearly one" 1 "-s observers: no observer 'org.cadenza.trac'" cadenza run -s observers=org.cadenza.trac -p a
refused "a processor that is none" 1 "-s processors: no processor 'dri'" cadenza run -s processors=dri -p a
refused "a strategy that is nearly one" 1 "-s strategy: no strategy 'asisted': did you mean 'assisted'?" cadenza run -s strategy=asisted -p a

# --- a plugin that crashes in the program's process: named, then the program dies of the signal
crashes() { # NAME SIGNAL WORDS SETTINGS...
    local name=$1 signal=$2 words=$3 status
    shift 3
    (ulimit -c 0; exec cadenza run -p 'music is' --seed 3 --plugin "$build/tests/isolate/misdeed.so" "$@") >out 2>err </dev/null
    status=$?
    [ $status -gt 128 ] && [ "$(kill -l $((status - 128)))" = "$signal" ] || grep -q 'ERROR: .*Sanitizer' err || bad "$name: status $status"
    if grep -qF "cadenza: test.misdeed$words" err; then good; else bad "$name: said $(cat err)"; fi
}
crashes "a bad pointer in apply" SEGV ": crashed (SIGSEGV) in apply; with \`isolation = process\`" -s pipeline.processors=test.misdeed -s test.misdeed.deed=segv
crashes "an abort in apply" ABRT ": crashed (SIGABRT) in apply;" -s pipeline.processors=test.misdeed -s test.misdeed.deed=abort
crashes "in begin" SEGV ": crashed (SIGSEGV) in begin;" -s pipeline.processors=test.misdeed -s test.misdeed.begin=segv
crashes "a drafter" SEGV "_draft: crashed (SIGSEGV) in propose;" -s pipeline.drafter=test.misdeed_draft -s test.misdeed_draft.deed=segv -s do_sample=no
crashes "a recursion in apply" SEGV ": crashed (SIGSEGV) in apply: its stack of " -s pipeline.processors=test.misdeed -s test.misdeed.deed=deep
crashes "a recursion in apply on all threads" SEGV ": crashed (SIGSEGV) in apply: its stack of " --threads 8 -s num_return_sequences=8 -s pipeline.processors=test.misdeed -s test.misdeed.deed=deep
crashes "a recursion in run" SEGV "_loop: crashed (SIGSEGV) in run: its stack of " -s pipeline.strategy=test.misdeed_loop -s test.misdeed_loop.deed=deep
# fibres that are threads have the system's stacks, where such a row has room
[ "${CADENZA_FIBRES:-}" = threads ] || crashes "a row among a loop's variables" SEGV "_loop: crashed (SIGSEGV) in run: its stack of " -s pipeline.strategy=test.misdeed_loop -s test.misdeed_loop.deed=wide

# --- Ctrl-C
env --default-signal=INT cadenza run -s eos_token_id=none -s max_new_tokens=400 --input <(for i in $(seq 1 400); do echo '{"prompt": "music is"}'; done) >interrupted.out 2>err &
sleep 1
kill -INT $! 2>/dev/null
wait $!
case $? in 0 | 1 | 130) good ;; *) bad "Ctrl-C: status $?" ;; esac

# --- a plugin's loop without an end: the first Ctrl-C cannot stop it, and it is said what the second does
rm -f out err # what the command before printed is no sign of this one
env --default-signal=INT cadenza run -p 'music is' --plugin "$build/tests/isolate/misdeed.so" -s pipeline.strategy=test.misdeed_loop -s test.misdeed_loop.deed=loop >out 2>err </dev/null &
for _ in $(seq 600); do [ -s out ] && break; sleep 0.1; done
kill -INT $! 2>/dev/null
for _ in $(seq 600); do grep -q 'Ctrl-C again' err && break; sleep 0.1; done
kill -INT $! 2>/dev/null
wait $!
status=$?
if [ $status = 130 ] && grep -q 'cadenza: not stopped yet' err; then good; else bad "Ctrl-C beside an endless loop: status $status, said $(cat err)"; fi

# --- a script that is saved while the program runs: the second line meets the new version, a broken one changes nothing
say_token() { printf 'return cadenza.processor { apply = function(p, ids, row) row:fill(-math.huge); %s end }\n' "$1" >.new && mv .new say.lua; }
awaits() { # FILE WORDS: until they are there
    for _ in $(seq 600); do grep -q "$2" "$1" && return 0; sleep 0.1; done
    bad "--dev: '$2' never came: $(cat "$1")"
}
say_token 'row[500] = 0'
printf '[pipeline]\nprocessors = lua:say.lua\n[generation]\nmax_new_tokens = 3\ndo_sample = no\n' >say.ini
mkfifo lines
cadenza run --dev --pipeline say.ini --input lines >dev.out 2>dev.err &
dev=$!
exec 9>lines
echo '{"prompt": "music is"}' >&9
say_token 'row[600] = 0'
awaits dev.err 'say.ini: reloaded, generation 2'
say_token 'row:no_such_thing()'
awaits dev.err "say.ini: generation 2 goes on: .*no_such_thing"
echo '{"prompt": "music is"}' >&9
exec 9>&-
if wait $dev; then good; else bad "--dev: status $?: $(cat dev.err)"; fi
same "--dev: the line after the change" "$(tail -1 dev.out | grep -c '\[600, 600, 600\]')" 1
say_token 'row[700] = 0'
printf 'music is\n/reload\nmusic is\n' | cadenza chat --pipeline say.ini -s max_new_tokens=2 >chat.out 2>chat.err
same "/reload says what became of it" "$(grep -c 'say.ini: reloaded, generation 2' chat.err)" 1

echo "COUNTED $passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
