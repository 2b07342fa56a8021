#!/usr/bin/env bash
# Every command that writes a file, against every kind of thing that can lie where the file is to be. written.sh BUILD.
set -uo pipefail
# shellcheck source=tests/whole/e2e/setup.sh
source "$(dirname "$0")/setup.sh"
model=$root/models/pocket-dictionary
skip() {
    printf 'skipped %s: %s\n' "$1" "$2"
    skipped=$((skipped + 1))
}

cadenza plugin new package --lang lua >/dev/null
printf '{"prompt": "a", "kwargs": {"max_new_tokens": 2}}\n' >lines.jsonl
printf '{"prompt": "a", "kwargs": {"max_new_tokens": 2, "output_scores": true}}\n' >request.json
cp -r "$model" small
printf 'a happy dog\n' >glad.txt
printf 'a sad dog\n' >sad.txt

# --- the commands: each writes "$1"; `answer` is what its file begins with, `old` what may be replaced
write_config() { cadenza config save -s temperature=0.5 -s do_sample=yes -o "$1"; }
write_outputs() { cadenza run -p a -s max_new_tokens=2 -s output_scores=yes --outputs "$1"; }
write_output() { cadenza run --input lines.jsonl --output "$1"; }
write_bench() { cadenza bench --prompt-tokens 4 --new-tokens 2 --context 2 --rounds 1 --json "$1"; }
write_junit() { cadenza plugin test package --only runs --junit "$1"; }
write_convert() { cadenza model convert small "$1" --force; }
write_steer() { cadenza steer make glad.txt sad.txt small -o "$1" --force; }
write_quantize() { cadenza model quantize small "$1" --type q8_0 --force; }
write_save() { # /save has no exit status of its own
    printf '/save %s\n' "$1" | cadenza chat 2>said
    cat said >&2
    ! grep '^cadenza: ' said | grep -qv ' messages in '
}
write_lock() { cadenza plugin add package --yes --lock "$1"; }
commands="config outputs output bench junit convert quantize steer save lock"

old_of() { if [ "$1" = lock ]; then printf 'cadenza.lock 1\n'; else printf 'old\n'; fi; }
# what write_X "$path" says and does, in out and err
run() {
    export -f "write_$1" # what waits for a reader of a pipe would wait for ever
    timeout 120 bash -c '"write_$0" "$1"' "$1" "$2" >out 2>err </dev/null
    local status=$?
    sed -i "/^==[0-9]*==WARNING: ASan doesn't fully support makecontext/d" err
    return $status
}
# Nothing but the names given lies in the folder of the target.
only() {
    local found
    found=$(cd place && find . -mindepth 1 -maxdepth 1 | sort | tr '\n' ' ')
    [ "$found" = "$2" ] && good || bad "$1: the folder holds '$found', expected '$2'"
}
fresh() {
    chmod -R u+w place 2>/dev/null
    rm -rf place victim nowhere
    mkdir place
    old_of "$1" >victim
}
target() { if [ "$1" = convert ] || [ "$1" = quantize ]; then echo place/t.gguf; else echo place/t; fi; }
# refused NAME COMMAND PATH WORDS: not written, and the words are told
refused() {
    if run "$2" "$3"; then bad "$1: not refused"
    elif ! grep -qE -- "$4" err; then bad "$1: lacks '$4': $(cat err)"
    else good; fi
}

for command in $commands; do
    t=$(target $command) name=${t##*/}

    fresh $command
    run $command "$t" && [ -f "$t" ] && [ -s "$t" ] && good || bad "$command, a new name: $(cat err)"
    only "$command, a new name" "./$name "

    fresh $command
    old_of $command >"$t"
    chmod 640 "$t"
    run $command "$t" && ! cmp -s "$t" victim && good || bad "$command, an old file: $(cat err)"
    [ "$(stat -c %a "$t")" = 640 ] && good || bad "$command, an old file: its mode is $(stat -c %a "$t")"
    only "$command, an old file" "./$name "

    fresh $command
    ln -s ../victim "$t"
    if [ $command = lock ]; then # the one link that is followed: of a lock, to a lock
        run lock "$t" && grep -q '^plugin ' victim && [ -L "$t" ] && good || bad "lock, a link: $(cat err)"
        echo other >victim
        refused "lock, a link to another file" lock "$t" "cadenza.lock"
        [ "$(cat victim)" = other ] && good || bad "lock, a link to another file: written"
    else
        refused "$command, a link" $command "$t" "symbolic link|is a file already"
        cmp -s victim <(old_of $command) && [ -L "$t" ] && good || bad "$command, a link: followed"
    fi
    only "$command, a link" "./$name "

    fresh $command
    ln -s ../nowhere "$t"
    refused "$command, a dangling link" $command "$t" "symbolic link|is a file already|no such file"
    [ ! -e nowhere ] && [ -L "$t" ] && good || bad "$command, a dangling link: followed"

    fresh $command
    mkfifo "$t"
    refused "$command, a pipe" $command "$t" "named pipe|is a file already"
    [ -p "$t" ] && good || bad "$command, a pipe: replaced"

    fresh $command
    if mknod "$t" c 1 3 2>/dev/null; then
        refused "$command, a device" $command "$t" "a device|is a file already"
        [ -c "$t" ] && good || bad "$command, a device: replaced"
    elif [ "$(id -u)" != 0 ]; then
        refused "$command, a device" $command /dev/null "a device|is a file already|Permission denied|not permitted"
        [ -c /dev/null ] && good || bad "$command, a device: replaced"
    else skip "$command, a device" "no rights to make one"; fi

    # A folder is a place for these two.
    if [ $command != config ] && [ $command != outputs ]; then
        fresh $command
        mkdir "$t"
        refused "$command, a folder" $command "$t" "is a folder"
        [ -d "$t" ] && good || bad "$command, a folder: replaced"
    fi

    fresh $command
    for suffix in .new .part .tmp '~'; do ln -s ../victim "$t$suffix"; done
    run $command "$t" && [ -s "$t" ] && good || bad "$command, beside links: $(cat err)"
    cmp -s victim <(old_of $command) && good || bad "$command, beside links: one was followed"

    # Root may write where it may not, but not to a file system that is read-only.
    fresh $command
    chmod 555 place
    if [ ! -w place ]; then
        refused "$command, a folder that may not be written" $command "$t" "Permission denied|not permitted"
    elif unshare -rm true 2>/dev/null; then
        export -f write_$command
        if unshare -rm bash -c 'mount -t tmpfs -o ro none place && "write_$1" "$2" >out 2>err </dev/null' - $command "$t"
        then bad "$command, a read-only place: success"
        elif grep -q 'Read-only' err; then good
        else bad "$command, a read-only place: $(cat err)"; fi
    else skip "$command, a folder that may not be written" "this user may write everywhere"; fi

    # A full disk: a small one of its own, where the user may have one.
    fresh $command
    if unshare -rm true 2>/dev/null; then
        export -f write_$command
        unshare -rm bash -c '
            mount -t tmpfs -o size=64k none place || exit 77
            [ "$1" = output ] || printf "%s" "$3" >"$2" # it grows in place: the old one would make room
            head -c 100000 /dev/zero >place/fill 2>/dev/null
            "write_$1" "$2" >out 2>err </dev/null && exit 1
            [ "$1" = output ] && exit 0
            [ "$(cat "$2")" = "${3%?}" ] || [ "$(cat "$2")" = "$3" ] || exit 2
            [ "$(ls -A place | wc -l)" = 2 ] || exit 3
            exit 0' - $command "$t" "$(old_of $command)
"
        case $? in
        0) grep -q 'No space left' err && good || bad "$command, a full disk: $(cat err)" ;;
        77) skip "$command, a full disk" "no small file system can be made" ;;
        1) bad "$command, a full disk: success" ;;
        2) bad "$command, a full disk: the old file is gone" ;;
        *) bad "$command, a full disk: something is left behind" ;;
        esac
    else skip "$command, a full disk" "no small file system can be made"; fi
done

# --- what is read is not written over, under no name it has
ln lines.jsonl lines2.jsonl
ln -s lines.jsonl lines3.jsonl
before=$(cat lines.jsonl)
for name in lines.jsonl ./lines.jsonl lines2.jsonl lines3.jsonl; do
    cadenza run --input lines.jsonl --output $name >out 2>err && bad "the input $name as output" || good
    [ "$(cat lines.jsonl)" = "$before" ] && good || bad "the input was written over as $name"
done
cadenza run --input - --output lines.jsonl <lines.jsonl >out 2>err && bad "standard input as output" || good
[ "$(cat lines.jsonl)" = "$before" ] && good || bad "standard input was written over"
cp lines.jsonl story.ini && printf '[pipeline]\n' >story.ini
kept() { # kept NAME FILE COMMAND...: fails, and the file is as it was
    local name=$1 file=$2 sum
    shift 2
    sum=$(sha256sum "$file")
    "$@" >out 2>err </dev/null && bad "$name: not refused" || good
    [ "$sum" = "$(sha256sum "$file")" ] && good || bad "$name: written over"
}
kept "the request" request.json cadenza run --request request.json --outputs request.json
kept "the pipeline" story.ini cadenza run --pipeline story.ini -p a --outputs story.ini
kept "a model's weights" small/model.safetensors cadenza run small -p a -s max_new_tokens=2 --outputs small/model.safetensors
kept "a model's config" small/config.json cadenza run small --input lines.jsonl --output small/config.json
kept "a benchmark's model" small/tokenizer.json cadenza bench small --json small/tokenizer.json
cadenza model convert small small.gguf >/dev/null
kept "a model that is quantised" small.gguf cadenza model quantize small.gguf small.gguf --type q8_0 --force
kept "texts that vectors are made of" glad.txt cadenza steer make glad.txt sad.txt small -o glad.txt --force
cadenza steer make glad.txt sad.txt small -o glad.gguf >/dev/null
kept "a control vector" glad.gguf cadenza run small -p a -s max_new_tokens=2 --control-vector glad.gguf --outputs glad.gguf
kept "a scaled one" glad.gguf cadenza run small -p a -s max_new_tokens=2 --control-vector-scaled glad.gguf:0.5 --outputs glad.gguf
kept "a plugin's script" package/package.lua cadenza plugin test package --only runs --junit package/package.lua

# --- standard output by its names
cadenza run --input lines.jsonl --output - 2>err | grep -q finish_reason && good || bad "--output -: $(cat err)"
cadenza run --input lines.jsonl --output /dev/stdout 2>err | grep -q finish_reason && good || bad "--output /dev/stdout: $(cat err)"

printf 'COUNTED %d passed, %d failed, %d skipped\n' $passed $failed $skipped
[ $failed = 0 ]
