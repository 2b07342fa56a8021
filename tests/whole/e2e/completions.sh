#!/usr/bin/env bash
# Completions as the shells give them, asked of the shells themselves: completions.sh BUILD.
set -uo pipefail
build=$(cd "$1" && pwd)
[ -x "$build/bin/cadenza" ] || { echo "FAILED: there is no program $build/bin/cadenza: build it first"; exit 1; }
export PATH="$build/bin:$PATH" CADENZA_PLUGIN_DIR="${CADENZA_PLUGIN_DIR:-$build/lib/cadenza}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" && touch weights.gguf
passed=0 failed=0 skipped=0

# What a shell offers for a line that ends where the cursor is, a word a line.
by_bash() {
    bash -c 'source <(cadenza completion bash)
        read -ra COMP_WORDS <<<"$1"
        [[ $1 != *" " ]] || COMP_WORDS+=("")
        COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
        _cadenza
        if [ ${#COMPREPLY[@]} -gt 0 ]; then printf "%s\n" "${COMPREPLY[@]}"; else compgen -f -- "${COMP_WORDS[COMP_CWORD]}"; fi' - "$1"
}
by_fish() { HOME=$work fish -c 'cadenza completion fish | source; complete -C $argv[1]' "$1" | cut -f1; }
# In a terminal of its own: what it shows after the key, a word a line. The key completes, has the list shown, and says so.
cat >press_tab.zsh <<'END'
zmodload zsh/zpty
zpty asked zsh -f -i
zpty -w asked "PS1=; stty cols 200 rows 200; fpath=($PWD \$fpath); autoload -Uz compinit; compinit -u -d $PWD/dump"
zpty -w asked 'press() { zle expand-or-complete; zle -R; print; print -r -- do""ne }; zle -N press; bindkey "^I" press; echo rea""dy'
zpty -r asked said '*ready*'
zpty -n -w asked "$1"$'\t'
zpty -r asked all '*done*'
print -r -- "$all"
END
by_zsh() {
    cadenza completion zsh >_cadenza
    timeout 60 zsh -f press_tab.zsh "$1" 2>&1 | sed -E 's/\x1b\[[0-9;?]*[a-zA-Z]//g' | grep -oE '[-a-z_.0-9]+'
}

# shell | the line so far | a word that it offers, or !word that it does not
asks='run|cadenza ru
plugin|cadenza pl
!run|cadenza pl
test|cadenza plugin 
--do-sample|cadenza run --do
--prompt|cadenza run --pro
--timeout-ms|cadenza plugin test --timeout
!--num-beams|cadenza tokenize --num
q4_0|cadenza run --kv-cache 
strict|cadenza parity --determinism st
!strict|cadenza parity --precision 
weights.gguf|cadenza run weig
weights.gguf|cadenza run --file we'
for shell in bash fish zsh; do
    if ! command -v $shell >/dev/null; then
        echo "skipped completions_$shell: there is no $shell"
        skipped=$((skipped + 1))
        continue
    fi
    while IFS='|' read -r word line; do
        offered=$(by_$shell "$line")
        if [[ $word = !* ]]; then ! grep -qxF -e "${word#!}" <<<"$offered"; else grep -qxF -e "$word" <<<"$offered"; fi
        if [ $? -eq 0 ]; then passed=$((passed + 1)); else
            echo "FAILED $shell: $line: $word; offered: $(head -c 300 <<<"$offered" | tr '\n' ' ')"
            failed=$((failed + 1))
        fi
    done <<<"$asks"
done
echo "COUNTED $passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
