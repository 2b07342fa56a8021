#!/usr/bin/env bash
# What newcomers type by habit, and what they are told: habits.sh BUILD. A row is an exit status, a line as typed, and the
# sentence (after "cadenza: "); with status 0 the line must work, and the sentence is part of what it prints.
set -uo pipefail
# shellcheck source=tests/whole/e2e/setup.sh
source "$(dirname "$0")/setup.sh"
quiet() { sed "/^==[0-9]*==WARNING: ASan doesn't fully support makecontext/d"; }

# --- what lies here
ln -s "$root/models" models
touch x.lua x.so x.tgz
printf 'music is\nriver (noun):\n' >p.txt
printf 'river (noun): a\n' >prompt.txt
hub=$HOME/.cache/huggingface/hub/models--org--small
mkdir -p "$hub/refs" "$hub/snapshots"
cp -rL models/pocket-dictionary "$hub/snapshots/abc"
printf abc >"$hub/refs/main"
mkdir -p shelf && ln -s "$root/models/pocket-dictionary" shelf/words

river='large natural stream of water'
rows() {
    cat <<'ROWS'
0|cadenza run -m models/pocket-dictionary -n 4 --temp 0.1 --seed 1 -p 'river (noun): a'|
0|cadenza run --model models/pocket-dictionary --no-do-sample --max-tokens 40 -p 'river (noun): a'|large natural stream of water
0|cadenza run --do-sample False --max-new-tokens 40 -p 'river (noun): a'|large natural stream of water
0|cadenza run --do_sample=off --max_new_tokens=40 -p 'river (noun): a'|large natural stream of water
0|cadenza run -s do_sample=False -s max_new_tokens=40 -p 'river (noun): a'|large natural stream of water
0|cadenza run -s do_sample=OFF -n 40 -f prompt.txt|large natural stream of water
0|cadenza run --top-k 1 --top_p 1.0 --temperature 1 -n40 -p 'river (noun): a'|large natural stream of water
0|cadenza run --no-do-sample --stream -p 'river (noun): a'|large natural stream of water
0|cadenza run --no-do-sample --no-stream -p 'river (noun): a'|large natural stream of water
0|cadenza run --no-do-sample --stop stream -p 'river (noun): a' --json|"text": " large natural stream"
0|cadenza run --no-do-sample --stop ' of water,' --stop 'natural' -p 'river (noun): a' --json|"text": " large natural"
0|cadenza run --no-do-sample --interactive -p 'What does river mean?'|A river is a large natural stream of water
0|cadenza run --no-do-sample -cnv -p 'What does river mean?'|A river is a large natural stream of water
0|cadenza run --no-do-sample --system 'You are a dictionary.' -p 'What does river mean?'|A river is a large natural stream of water
0|cadenza chat --no-do-sample -p 'What does river mean?'|A river is a large natural stream of water
0|cadenza run org/small --no-do-sample -p 'river (noun): a'|large natural stream of water
0|cadenza run -hf org/small --no-do-sample -p 'river (noun): a'|large natural stream of water
0|CADENZA_MODELS=/nowhere:shelf cadenza run words --no-do-sample -p 'river (noun): a'|large natural stream of water
0|HF_HOME=$HOME/.cache/huggingface cadenza tokenize org/small -p river|[360, 336]
0|CADENZA_MODELS=shelf cadenza model list|words
0|cadenza model list|org/small
0|cadenza list|org/small
0|cadenza pull org/small --offline|models--org--small/snapshots/abc
0|cadenza help processor|cadenza plugin new calmer --kind processor
0|cadenza help custom-generate|--custom-generate replaces the decode loop
0|cadenza help pipelines|[pipeline]
0|cadenza help max-new-tokens|max_new_tokens, a generation parameter
0|cadenza help --kv-cache|kv_cache, a setting of the host: type of the KV caches
0|cadenza help -t|  CADENZA_THREADS
0|cadenza help --temp|id         temperature
0|cadenza help plugin test|usage: cadenza plugin test
0|cadenza tokenize --decode -p '360 336'|"river"
0|cadenza tokenize --no_special -p river|[360, 336]
0|cadenza tokenize --no-sp -p river|[360, 336]
0|cadenza tokenize -p river -- models/pocket-dictionary|[360, 336]
0|cadenza run --custom_generate=greedy -n40 -p 'river (noun): a'|large natural stream of water
0|cadenza run --num-beams 2 --do-sample no models/pocket-dictionary -n 40 -p 'river (noun): a'|water
0|cadenza explain hf models/pocket-dictionary --early-stopping never --num-beams 2|"never"
0|cadenza explain hf --quirks models/pocket-dictionary|true
0|cadenza config show --temp 0.5 --no-do-sample|"temperature": 0.5
2|cadenza ls|there is no command 'ls': `cadenza list` lists models, `cadenza plugin list` plugins
2|cadenza ps|there is no command 'ps': nothing runs in the background: a command ends with its answer
2|cadenza download org/x|there is no command 'download': `cadenza pull ORG/NAME` downloads a model; `cadenza run ORG/NAME` does so first
2|cadenza pull llama3|pull: llama3 is no id of a model: expected ORG/NAME, or ORG/NAME:FILE; of letters, digits and single '-', '_' and '.'; see `cadenza pull --help`
2|cadenza pull|pull: expected the id of a model, ORG/NAME; see `cadenza pull --help`
1|cadenza pull org/none|org/none: no cache of this machine has all of it, and --offline or HF_HUB_OFFLINE forbids to download it
1|cadenza run org/small --revision ../x -p a|--revision ../x: expected a branch, a tag or a commit
2|cadenza server|there is no command 'server': `cadenza serve MODEL` answers requests over HTTP
2|cadenza show words|there is no command 'show': `cadenza model info MODEL` describes a model, `cadenza plugin info ID` a plugin
2|cadenza -p x|-p belongs to a command: did you mean cadenza run -p?
2|cadenza 'once upon a time'|'once upon a time' is no command; did you mean cadenza run -p 'once upon a time'?
2|cadenza models/pocket-dictionary|'models/pocket-dictionary' is no command; did you mean cadenza run models/pocket-dictionary?
2|cadenza help procesor|help: there is no command, topic, parameter, setting or plugin 'procesor': did you mean 'processor'?
1|cadenza run Qwen/Qwen2.5-0.5B-Instruct|Qwen/Qwen2.5-0.5B-Instruct is neither here nor in a cache of this machine, and --offline or HF_HUB_OFFLINE forbids to download it
1|cadenza model info Qwen/Qwen2.5-0.5B-Instruct|Qwen/Qwen2.5-0.5B-Instruct is neither here nor in a cache of this machine; `cadenza pull Qwen/Qwen2.5-0.5B-Instruct` downloads it
1|cadenza run https://example.org/Qwen/Qwen2.5-0.5B/tree/main|https://example.org/Qwen/Qwen2.5-0.5B/tree/main: an address is no MODEL; its id is: cadenza run Qwen/Qwen2.5-0.5B
1|cadenza run llama3|llama3: no such model folder; `cadenza list` lists what is here, `cadenza run ORG/NAME` downloads
1|cadenza run 'a prompt'|'a prompt' is no model; did you mean -p 'a prompt'?
1|cadenza run temperature=0.5 -p a|temperature=0.5 is no model; did you mean -s temperature=0.5?
1|cadenza run ./nowhere.gguf|./nowhere.gguf: no such model folder or GGUF file
1|cadenza run models|models holds 2 models and is none: models/pocket-dictionary, models/pocket-dictionary-draft
1|cadenza run models/pocket-dictionary/model.safetensors|models/pocket-dictionary/model.safetensors: its folder is the model: cadenza run models/pocket-dictionary
1|cadenza tokenize 'some text'|'some text' is no model; did you mean -p 'some text'?
1|cadenza tokenize --decode '1 2'|'1 2' is no model; did you mean -p '1 2'?
2|cadenza run models/pocket-dictionary 'some text'|run: unexpected argument 'some text'; did you mean -p 'some text'? See `cadenza run --help`
2|cadenza run -m models/pocket-dictionary words|run: the model is given twice: as -m models/pocket-dictionary and as 'words'; see `cadenza run --help`
2|cadenza run -p a -p b|run: -p is given twice; give it once; see `cadenza run --help`
2|cadenza run --pipeline a.ini --pipeline b.ini|run: --pipeline is given twice; give it once; see `cadenza run --help`
2|cadenza run -p a --ctx-size 4096|run: --ctx-size is not an option here: the KV cache grows with the conversation up to the model's context; --kv-memory bounds all of it, --max-new-tokens an answer; see `cadenza run --help`
2|cadenza run -p a -c 4096|run: -c is not an option here: the KV cache grows with the conversation up to the model's context; --kv-memory bounds all of it, --max-new-tokens an answer; see `cadenza run --help`
2|cadenza run -p a -ngl 99|run: -ngl is not an option here: a device computes all layers: --device cuda; see `cadenza run --help`
2|cadenza run -p a --torch-dtype bfloat16|run: --torch-dtype is not an option here: weights are used in the type they are stored in; --quantize TYPE makes them smaller; see `cadenza run --help`
2|cadenza run -p a --no-do-sample=yes|run: --no-do-sample takes no value; see `cadenza run --help`
2|cadenza tokenize --kv-cache f16 -p a|tokenize: --kv-cache is not an option here; run, chat, serve, lua, explain, detect, steer, score, bench and parity have it; see `cadenza tokenize --help`
2|cadenza model check --device cpu|model: check takes no --json, no --context and no --device; see `cadenza model --help`
2|cadenza chat --profile|chat: --profile is not an option here; run has it; see `cadenza chat --help`
2|cadenza explain hf --timeout=3|explain: --timeout is not an option here; run, chat, lua, score, bench and parity have it; see `cadenza explain --help`
2|cadenza score --text a --timeout 1|score: --timeout and --assistant go with -p; see `cadenza score --help`
2|cadenza score --outputs a --threads 2|score: --outputs reads what was saved; of the options it takes --normalize, --summary and --json; see `cadenza score --help`
2|cadenza run -p a --temperature|run: --temperature needs a value; see `cadenza run --help`
2|cadenza run -p a --temperature hot|--temperature = "hot": must be a number
2|cadenza run -p a --top-k -3 --do-sample|--top-k = -3: must be an integer from 0
2|cadenza run -p a -s 42|run: -s 42: expected NAME=VALUE; a seed is --seed 42; see `cadenza run --help`
2|cadenza run -p a -s do_sample=maybe|-s do_sample = "maybe": must be true or false
2|cadenza run -p a -s temp=0.5|-s temp: no such parameter: did you mean 'temperature'?
2|cadenza run -p a -s stop=x|-s stop: no such parameter: did you mean 'stop_strings'?
2|cadenza run -p a -s n_predict=5|-s n_predict: no such parameter: did you mean 'max_new_tokens'?
2|cadenza run -p a -s max_tokens=5|-s max_tokens: no such parameter: did you mean 'max_new_tokens'?
2|cadenza run -p a -s use=llamacpp|-s use: a profile belongs in a file, or is the pipeline itself: --pipeline llamacpp
2|cadenza run --stream --json -p a|run: --stream writes text; --json and --input write JSON when an answer is whole; see `cadenza run --help`
2|cadenza run --system x --ids 1|run: --system goes with -p, --file or standard input; see `cadenza run --help`
1|cadenza run -f nowhere.txt|nowhere.txt: cannot be opened: No such file or directory
2|cadenza plugin add x.tgz|plugin add: x.tgz is an archive; unpack it, look at it, and add its folder
2|cadenza plugin add https://example.org/x|plugin add: https://example.org/x is an address; Cadenza does not download: fetch it, look at it, and add its folder
2|cadenza plugin add x.lua|plugin add: x.lua is one file; --plugin x.lua runs it, and `cadenza plugin new FOLDER` makes a package to move it into
2|cadenza plugin add x.so|plugin add: x.so is one file; --plugin x.so runs it, and `cadenza plugin new FOLDER` makes a package to move it into
2|cadenza plugin install x|plugin: no 'install': `cadenza plugin add FOLDER` adds a package; see `cadenza plugin --help`
2|cadenza completion tcsh|completion: expected bash, zsh or fish, found tcsh; see `cadenza completion --help`
2|cadenza manual walk|manual: there is no command 'walk'; see `cadenza manual --help`
ROWS
}
while IFS='|' read -r status typed sentence; do
    bash -c "$typed" >out 2>err </dev/null
    got=$?
    said=$(quiet <err)
    if [ "$got" != "$status" ]; then
        bad "$typed: status $got, expected $status: $said"
    elif [ "$status" = 0 ]; then
        if grep -qF -- "$sentence" out; then good; else bad "$typed: lacks '$sentence': $(head -c 300 out)"; fi
    elif [ "$said" = "cadenza: $sentence" ] && [ ! -s out ]; then
        good
    else
        bad "$typed: said '$said', expected 'cadenza: $sentence'"
    fi
done < <(rows)
same() { if [ "$2" = "$3" ]; then good; else bad "$1: '$2' is not '$3'"; fi; }
cadenza run --input p.txt >out 2>err
same "plain lines" "$(head -1 out)" '{"error": "line 1: each line is a JSON object such as {\"prompt\": \"music is\"}; found '"'music'"'"}'

# --- every name of another program leads where help says
cadenza run --help all | sed -n '/^Names of other programs/,/^$/p' | sed -nE 's/^ +(--?[a-z-]+) +--([a-z-]+).*/\1 \2/p' >names
[ "$(wc -l <names)" -gt 30 ] && good || bad "names of other programs: $(wc -l <names) were found"
while read -r theirs ours; do
    value=5
    case $ours in
    stop-strings) value=x ;;
    interactive | allow-model-plugins) value= ;;
    esac
    if cadenza explain hf "--$ours" $value >ours.out 2>/dev/null </dev/null; then
        cadenza explain hf "$theirs" $value >theirs.out 2>&1 </dev/null
        same "explain $theirs $value" "$(cat theirs.out)" "$(cat ours.out)"
    fi
    # the value is taken: what follows is still an option
    same "run $theirs $value --help" "$(cadenza run "$theirs" $value --help 2>&1 </dev/null | head -1)" "$(cadenza run --help | head -1)"
done <names

# --- chat
chat() { printf '%s\n' "$@" | cadenza chat 2>&1 | quiet; }
same "/set of what can never run" "$(chat '/set temperature=-1' /set '/set max_new_tokens=0' /set)" "$(printf '%s\n' 'cadenza: /set temperature = -1.0: must be a number above 0.0' \
    'cadenza: /set max_new_tokens = 0: must be an integer from 1' "nothing is set; /set NAME=VALUE sets something" "nothing is set; /set NAME=VALUE sets something")"
same "/set without a value" "$(chat '/set x')" "cadenza: /set x: expected NAME=VALUE"
same "/set of a name that is none" "$(chat '/set temprature=1' | tail -1)" "cadenza: /set temprature: no such parameter: did you mean 'temperature'?"
same "/set as in Ollama, then /unset" "$(chat '/set parameter top_k 5' '/set' '/unset top_k' '/set')" "$(printf '%s\n' top_k=5 'nothing is set; /set NAME=VALUE sets something')"
same "/unset of what is not set" "$(chat '/unset top_k')" "cadenza: /unset top_k: it is not set; /set shows what is"
same "/set alone" "$(chat /set)" "nothing is set; /set NAME=VALUE sets something"
for word in /exit /bye /quit /q; do same "$word" "$(chat $word 'not read')" ""; done
same "/?" "$(chat '/?')" "$(chat /help)"
same "/regenrate" "$(chat /regenrate)" "cadenza: unknown command /regenrate: did you mean /regenerate?; /help lists them"
same "/model" "$(chat /model 2>&1 | grep -c pocket-dictionary)" 1
same "/model of none" "$(chat '/model nowhere')" "cadenza: nowhere: no such model folder; \`cadenza list\` lists what is here, \`cadenza run ORG/NAME\` downloads"
answer="A river is a large natural stream of water (larger than a creek)."
same "/model goes on" "$(chat '/set do_sample=no' '/model models/pocket-dictionary' 'What does river mean?')" "$answer"
for word in /regen /regenerate /retry; do
    same "$word" "$(chat '/set do_sample=no' 'What does river mean?' $word)" "$(printf '%s\n' "$answer" "$answer")"
done
same "/save and /load" "$(chat '/set do_sample=no' 'What does river mean?' '/save talk.json' /clear '/load talk.json' /regen | sort)" \
    "$(printf '%s\n' "$answer" "$answer" 'cadenza: 2 messages in talk.json; /load reads it, and so does `cadenza run --messages`' 'cadenza: 2 messages from talk.json' | sort)"
echo '[{"role": "poet"}]' >odd.json
same "/load of what is none" "$(chat '/load odd.json')" 'cadenza: odd.json: message 1: expected an object with "role": "system", "user" or "assistant"'
same "/load of nothing" "$(chat '/load')" "cadenza: /load: expected the name of a file that /save wrote"

echo "COUNTED $passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
