#!/usr/bin/env bash
# Every setting of the host is where its row says that it is: option, key, variable, member, field, help, manual,
# completions, explain and reference page: settings.sh BUILD [FOLDER]. The rows are read from `cadenza explain --settings`.
# FOLDER has a program whose table has one row more (one_more_setting.txt). With it that row is looked for everywhere, and
# nothing but the row was written: a row is all that a setting takes.
set -uo pipefail
# shellcheck source=tests/whole/e2e/setup.sh
source "$(dirname "$0")/setup.sh"
unset CADENZA_THREADS CADENZA_DEVICE
[ $# -eq 1 ] || export PATH="$2:$PATH"
# holds WHAT FILE PATTERN: a line of the file has it
holds() { if grep -qE -- "$3" "$2"; then good; else bad "$1: not in $(basename "$2")"; fi; }

# --- what the program says, once
cadenza explain --settings >page
cadenza explain --schema >schema
cadenza plugin schema >members
cadenza --help >help
cadenza manual | sed 's/\\-/-/g' >manual
for shell in bash zsh fish; do cadenza completion $shell >of_$shell; done
commands=(run chat serve lua explain plugin 'plugin test' pull list model 'model convert' 'model quantize' tokenize template grammar config detect steer score
    bench 'bench serve' parity completion manual version)
for c in "${commands[@]}"; do
    cadenza $c --help all >"help of $c"
    cadenza manual $c | sed 's/\\-/-/g' >"manual of $c"
done

# --- the parts of a row
ways() { tr -d '`' <<<"$1" | sed 's/, /\n/g'; }
listed() { sed 's/ and /, /; s/, /\n/g' <<<"$1"; }
# A value that an option takes: its first word, or what its label stands for.
sample() { # value-column label
    local word=${1#\`}
    case $1 in
    \`*) echo "${word%%\`*}" ;;
    *)
        case $2 in
        SIZE) echo 64M ;;
        N) echo 2 ;;
        SECONDS) echo 5 ;;
        NAME) echo cpu ;;
        NAME=VALUE) echo temperature=0.5 ;;
        *) echo x ;;
        esac
        ;;
    esac
}

flag_of() { # name flag label commands values
    local flag=$2 label=$3 c
    [ -n "$4" ] || bad "$flag: no command takes it"
    for c in "${commands[@]}"; do
        local own=0
        grep -qE -- "(^| )--$flag( |$)" "help of $c" && own=1
        if listed "$4" | grep -qxF -- "$c"; then
            holds "$c $flag" "help of $c" "^ +(-[a-z], )?--$flag( |$)"
            holds "$c $flag" "manual of $c" "^\.B (-[a-z], )?--$flag( |$)"
            # it is taken: with a value, or refusing one
            if [ -n "$label" ]; then
                said=$(cadenza $c --$flag 2>&1 </dev/null)
                [[ $said == *"--$flag needs a value"* ]] && good || bad "$c --$flag: said '$said'"
            else
                said=$(cadenza $c --$flag=1 2>&1 </dev/null)
                [[ $said == *"--$flag takes no value"* ]] && good || bad "$c --$flag=1: said '$said'"
            fi
        elif [ $own = 0 ]; then
            said=$(cadenza $c --$flag x 2>&1 </dev/null)
            [[ $said == *"--$flag is not an option here; "*" ha"*" it; see "* ]] && good || bad "$c --$flag: said '$said'"
        fi
    done
    holds "--$flag" of_bash "[ ']--$flag( |'|\$)"
    holds "--$flag" of_zsh "--$flag[^a-z-]"
    holds "--$flag" of_fish " -l $flag( |\$)"
}

# What explain shows of a setting, and where from; in text and in JSON.
explained() { # name value from command...
    local text json
    text=$("${@:4}" 2>&1)
    json=$("${@:4}" --json 2>&1)
    grep -qE "^  $1 +$2 +$3\$" <<<"$text" && good || bad "${*:4}: lacks '$1 $2 $3'"
    grep -qE "^    \"$1\": \{\"value\": (\"$2\"|true), \"from\": \"$3\"\}" <<<"$json" && good || bad "${*:4} --json: lacks '$1 $2 $3'"
}

key_of() { # name section value in-explain
    if [ "$2" = server ] || [[ $2 == 'model '* ]]; then # of a server's file
        printf '[%s]\n%s = %s\n' "$2" "$1" "$3" >key.ini
        said=$(cadenza serve --config key.ini --check-config 2>&1)
        [[ $said != *'has no key'* ]] && good || bad "[$2] $1 is no key: $said"
        said=$(cadenza explain key.ini 2>&1)
        [[ $said == *"[$2] is used by nothing"* || $said == *"key.ini:"* ]] && good || bad "[$2] is a section of pipelines: $said"
        return
    fi
    holds "[$2] $1" schema "^    \"$1\": \{\"description\": \"."
    printf '[%s]\n%s = %s\n' "$2" "$1" "$3" >key.ini
    if [ "$2" = pipeline ]; then
        said=$(cadenza explain hf -s pipeline.zzz=1 2>&1)
        [[ "$said," == *[\ ]"$1,"* ]] && good || bad "[$2] $1 is no key: $said"
    else
        explained "$1" "$3" 'key.ini:2' cadenza explain key.ini
        said=$(cadenza explain hf -s "$2.$1=$3" 2>&1)
        [[ $said == *"-s $2.$1: belongs in a file; else say --"* ]] && good || bad "-s $2.$1: $said"
    fi
}

member_of() { # name
    holds "member $1" members "^    \"$1\": \{\"description\": \"."
    printf '{"%s": null, "zzz": 1}' "$1" >member.json
    said=$(cadenza run --request member.json 2>&1)
    [[ $said == *'unknown field "zzz"'* ]] && good || bad "member $1 is unknown: $said"
}

field_of() { # cdz_options.kv_cache
    sed -n "/^typedef struct ${1%%.*} {/,/^} ${1%%.*};/p" "$root/sdk/include/cadenza/cadenza.h" >struct
    holds "$1" struct "[ *]${1#*.}[;,]"
}

# Shells complete the words; one that is none is refused by a sentence that has all that are some.
words_of() { # flag values commands field
    local word all c
    all=$(tr -d '`' <<<"$2")
    grep -qF -- "    --$1) COMPREPLY=(\$(compgen -W '$all' -- " of_bash && good || bad "bash: the words of --$1"
    grep -qxF -- "    --$1) compadd $all; return ;;" of_zsh && good || bad "zsh: the words of --$1"
    grep -qF -- " -l $1 -x -a '$all' -d " of_fish && good || bad "fish: the words of --$1"
    # a command that takes it hands it on: it is refused there, too. explain opens no model.
    while read -r c; do
        [[ $c == explain && $4 == cdz_model_options.* ]] && continue
        said=$(cadenza $c $(asked_of $c) --$1 zz 2>&1 </dev/null)
        [ $? = 2 ] || bad "$c --$1 zz: $said"
        for word in $all; do
            [[ $said == *[,\ ]"$word"[,:\ \;]* || $said == *" $word" ]] && good || bad "$c --$1 zz does not name $word: $said"
        done
    done < <(listed "$3")
}
# What a command is asked for besides, as little as it takes.
asked_of() {
    case $1 in
    run) echo -p a ;;
    lua) printf "%s" "-e ctx" ;;
    explain) echo hf ;;
    detect) echo -p a -w '{"bias":4}' ;;
    score) echo --text a ;;
    steer) echo make a b -o c ;;
    parity) echo "$root/tests/golden/llama_gqa" ;;
    esac
}

# --- all rows
rows=0 table=
while IFS= read -r line; do
    [[ $line == '## '* ]] && table=${line#\#\# }
    case $line in '| setting |'*) IFS='|' read -ra head <<<"$line" ;; esac
    [[ $line == '| `'* ]] || continue
    rows=$((rows + 1))
    name= said_where= help_text= values= takers=
    IFS=$'\x1f' read -ra cells <<<"$(sed 's/\\|/\x1e/g; s/|/\x1f/g' <<<"$line")"
    for i in "${!head[@]}"; do
        cell=$(sed 's/^ *//; s/ *$//' <<<"${cells[i]:-}")
        case ${head[i]} in
        ' setting ') name=$(tr -d '`' <<<"$cell") ;;
        ' where it is said ') said_where=$cell ;;
        ' what it is ') help_text=$cell ;;
        ' values ') values=$cell ;;
        ' commands ') takers=$cell ;;
        esac
    done
    [ $# -eq 1 ] || [ "$name" = turns ] || continue
    [ -n "$help_text" ] && good || bad "$name: has no help"
    [ -n "$said_where" ] && good || bad "$name: can be said nowhere"
    # help NAME has it, unless a command, topic or parameter is called so
    cadenza help "$name" >told 2>&1
    grep -q 'a setting of the host' told || cadenza help "$name" | grep -qE 'a generation parameter|^usage: |`cadenza|  cadenza ' && good || bad "help $name: $(head -1 told)"
    option= label= field=
    while read -r way rest; do
        case $way in
        --*) option=${way#--} label=$rest && flag_of "$name" "$option" "$label" "$takers" "$values" ;;
        -?) holds "$name $way" of_bash " $way( |')" ;;
        \"*) member_of "$name" ;;
        cdz_*) field=$way && field_of "$way" ;;
        [A-Z]*)
            holds "$way" help "^  $way "
            holds "$way" manual "^\.B $way\$"
            holds "$way" "$root/host/base/environment.c" "\"$way\"|read_variable\(name\)"
            [ "$table" = Machine ] && explained "$name" "$(sample "$values" "$label")" "$way" env "$way=$(sample "$values" "$label")" cadenza explain hf
            ;;
        *) # key in [section]
            key_of "$way" "$(sed 's/in \[\(.*\)\]/\1/' <<<"$rest")" "$(sample "$values" "$label")"
            ;;
        esac
    done < <(ways "$said_where")
    if [ "$table" = Machine ]; then
        value=$(sample "$values" "$label")
        explained "$name" "$value" 'command line' cadenza explain hf --$option "$value"
    fi
    [[ $option && $values == \`* ]] && words_of "$option" "$values" "$takers" "$field"
done <page
[ "$rows" -gt 60 ] && good || bad "only $rows rows were read"

# --- and nothing is said that has no row
while read -r variable; do
    grep -qF -- "\`$variable\`" page && good || bad "$variable is read, and has no row"
done < <(grep -oE 'read_variable\("[A-Z_]+"\)' "$root/host/base/environment.c" | grep -oE '[A-Z_]{2,}' | grep -vx HOME | sort -u)
differs=$(diff "$root/docs/reference/settings.md" page | grep '^[<>]')
if [ $# -eq 1 ]; then
    [ -z "$differs" ] && good || bad "docs/reference/settings.md is another: $(head -3 <<<"$differs")"
else
    [[ $differs == '> | `turns` | `--turns NAME`, `turns` in `[pipeline]`, `CADENZA_TURNS`, `"turns"` of a request, `cdz_options.prefix_cache` | '* && $differs != *$'\n'* ]] &&
        good || bad "the page has one row more, and not: $differs"
fi

echo "COUNTED $passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
