#!/usr/bin/env bash
# Writes docs/reference: one page for each built-in plugin, from its own tables and one example each; and settings.md, from
# the table of the host's settings.
#
#   tools/docs/plugin-pages.sh BUILD_FOLDER [OUTPUT_FOLDER]
#
# The test `plugin_pages` writes them anew and compares, so a page is never older than its plugin.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=$(realpath "$1")
out=${2:-$root/docs/reference}
cadenza=$build/bin/cadenza
export CADENZA_PLUGIN_DIR=$build/lib/cadenza
export LC_ALL=C
mkdir -p "$out"

ids=$("$cadenza" plugin list --safe-mode | awk '/^  [a-z]/ && $1 !~ /\./ { print $1 }' | sort -u)

settings() { # TEXT with ';' between: one a line, no spaces round
    tr ';' '\n' <<<"$1" | sed 's/^ *//; s/ *$//'
}

# A pipeline; with settings of the plugin's own it has to be named.
pipeline() { # id settings own
    local key=processors
    "$cadenza" plugin page "$1" | sed -n 3p | grep -q 'A strategy,' && key=strategy
    "$cadenza" plugin page "$1" | sed -n 3p | grep -q 'A drafter,' && key=drafter
    [ -z "$3" ] || printf '[pipeline]\n%s = %s\n\n' "$key" "$1"
    printf '[generation]\n'
    settings "$2" | sed 's/=/ = /'
    [ -z "$3" ] || { printf '\n[%s]\n' "$1" && settings "$3" | sed 's/=/ = /'; }
}

ini_example() { # id prompt settings assistant own
    printf '\n## In a pipeline\n\n```ini %s.ini\n' "$1"
    pipeline "$1" "$3" "$5"
    printf '```\n\n```console\n$ cadenza run --pipeline %s.ini%s -p '\''%s'\''\n```\n' "$1" \
        "${4:+ --assistant $4}" "$2"
}

# The program with a second model, which drafts for the first.
with_draft() {
    sed -e 's/cdz_model \*model = NULL;/cdz_model *model = NULL, *draft = NULL;/' -e 's/argc == 2/argc == 3/' \
        -e 's/&model, &err) == CDZ_OK) {/\&model, \&err) == CDZ_OK \&\&/' \
        -e 's/^        cdz_request request = {.size = sizeof request, .model = model, .json = request_json};/        cdz_model_open(runtime, argv[2], NULL, \&draft, \&err) == CDZ_OK) {\n        cdz_request request = {\n            .size = sizeof request, .model = model, .assistant = draft, .json = request_json};/' \
        -e 's/^    cdz_model_close(model);/    cdz_model_close(draft);\n    cdz_model_close(model);/'
}

# The program with a pipeline file, which names the plugin.
with_pipeline() { # id
    sed -e 's/cdz_model \*model = NULL;/cdz_model *model = NULL;\n    cdz_pipeline *pipeline = NULL;/' \
        -e 's/&model, &err) == CDZ_OK) {/\&model, \&err) == CDZ_OK \&\&/' \
        -e "s/^        cdz_request request = {.size = sizeof request, .model = model, .json = request_json};/        cdz_pipeline_load(runtime, \"$1.ini\", \&pipeline, \&err) == CDZ_OK) {\n        cdz_request request = {\n            .size = sizeof request, .model = model, .pipeline = pipeline, .json = request_json};/" \
        -e 's/^    cdz_model_close(model);/    cdz_pipeline_free(pipeline);\n    cdz_model_close(model);/'
}

# Both.
with_draft_and_pipeline() { # id
    with_draft | sed -e 's/, \*draft = NULL;/&\n    cdz_pipeline *pipeline = NULL;/' \
        -e "s/&draft, &err) == CDZ_OK) {/\&draft, \&err) == CDZ_OK \&\&\n        cdz_pipeline_load(runtime, \"$1.ini\", \&pipeline, \&err) == CDZ_OK) {/" \
        -e 's/^            \(.size = .*\) \.assistant = draft, /            \1\n            .assistant = draft, .pipeline = pipeline, /' \
        -e 's/^    cdz_model_close(draft);/    cdz_pipeline_free(pipeline);\n&/'
}

c_example() { # id prompt settings assistant own
    local kwargs models=MODEL
    kwargs=$(settings "$3" | sed 's/^\([a-z_]*\)=\(.*\)$/"\1": \2/' | paste -sd, | sed 's/,"/, "/g; s/"/\\"/g')
    printf '\n## From C\n\n```c %s.c\n' "$1"
    [ -n "$4" ] && models="MODEL DRAFT"
    cat <<C | if [ -n "$4" ] && [ -n "$5" ]; then with_draft_and_pipeline "$1"; elif [ -n "$4" ]; then with_draft; elif [ -n "$5" ]; then with_pipeline "$1"; else cat; fi
#include <cadenza/cadenza.h>
#include <stdio.h>

static const char request_json[] =
    "{\"prompt\": \"$2\","
    " \"kwargs\": {$kwargs}}";

int main(int argc, char **argv)
{
    cdz_runtime *runtime = NULL;
    cdz_model *model = NULL;
    cdz_result *result = NULL;
    cdz_error err = {.text = "usage: $1 $models"};
    if (argc == 2 && cdz_open(NULL, &runtime, &err) == CDZ_OK &&
        cdz_model_open(runtime, argv[1], NULL, &model, &err) == CDZ_OK) {
        cdz_request request = {.size = sizeof request, .model = model, .json = request_json};
        if (cdz_generate(runtime, &request, &result, &err) == CDZ_OK)
            puts(cdz_result_text(result, 0));
    }
    if (!result) fprintf(stderr, "%s\n", err.text);
    const int status = result ? 0 : 1;
    cdz_result_free(result);
    cdz_model_close(model);
    cdz_close(runtime);
    return status;
}
C
    printf '```\n\n```console\n$ ./%s cadenza-source/models/pocket-dictionary%s\n```\n' "$1" "${4:+ $4}"
}

is_scheduler() { "$cadenza" plugin page "$1" | sed -n 3p | grep -q 'A scheduler,'; }

# A scheduler is a server's, or a runtime's: no pipeline names it.
scheduler_example() { # id prompt settings own
    printf '\n## In a server'\''s file\n\n```ini %s.ini\n[server]\nscheduler = %s\n\n[%s]\n' "$1" "$1" "$1"
    settings "$4" | sed 's/=/ = /'
    printf '```\n\n```console\n$ cadenza serve --config %s.ini --check-config\n```\n' "$1"
    c_example "$1" "$2" "$3" "" "" |
        sed -e "s/^    cdz_runtime \*runtime = NULL;/    static const char *const params[] = {\"$(settings "$4" | paste -sd, | sed 's/,/", "/g')\"};\n    const cdz_options options = {.size = sizeof options,\n                                 .scheduler = \"$1\",\n                                 .scheduler_params = params,\n                                 .n_scheduler_params = sizeof params \/ sizeof *params};\n&/" \
            -e 's/cdz_open(NULL, /cdz_open(\&options, /'
}

is_press() { "$cadenza" plugin page "$1" | sed -n 3p | grep -q 'A press,'; }

# A press stands in a pipeline's list; one that changes what another says, behind one. A prompt of "-": it needs a file, so there
# is nothing to run.
press_example() { # id prompt settings own
    local list=$1
    [ "$2" != - ] || return 0
    "$cadenza" plugin page "$1" | grep -q '^- changes what the press before' && list="knorm, $1"
    printf '\n## In a pipeline\n\n```ini %s.ini\n[pipeline]\npress = %s\n\n[generation]\n' "$1" "$list"
    settings "$3" | sed 's/=/ = /'
    [ -z "$4" ] || { printf '\n[%s]\n' "$1" && settings "$4" | sed 's/=/ = /'; }
    printf '```\n\n```console\n$ cadenza run --pipeline %s.ini -p '\''%s'\''\n```\n' "$1" "$2"
    c_example "$1" "$2" "$3" "" pipeline
}

# The same processor as a script of one's own: it replaces the built-in one in a chain, and gives the same bits.
lua_example() { # id prompt settings
    local twin=$root/tests/lua/twins/$1.lua
    [ -f "$twin" ] || return 0
    printf '\n## The same in Lua\n\nThis script gives the bits of the built-in one.\n\n```lua my_%s.lua\n' "$1"
    sed "1d; s/^  id = \"$1\"/  id = \"org.example.${1//_/-}\"/" "$twin" # ids without a dot are the built-in plugins'
    local key=chain # the scripts alone: the built-in processor stays out
    grep -q cadenza.criterion "$twin" && key=stopping
    printf '```\n\n```ini my_%s.ini\n[pipeline]\n%s = lua:my_%s.lua\n\n[generation]\n' "$1" "$key" "$1"
    # A parameter that is an object is the built-in plugin's alone: its members are the script's own parameters.
    settings "$3" | grep -v "^$1={" | sed 's/=/ = /'
    if settings "$3" | grep -q "^$1={"; then
        printf '\n[lua:my_%s.lua]\n' "$1"
        settings "$3" | sed -n "s/^$1={\"\(.*\)}\$/\1/p" | sed 's/, "/\n/g; s/": / = /g'
    fi
    printf '```\n\n```console\n$ cadenza run --pipeline my_%s.ini -p '\''%s'\''\n```\n' "$1" "$2"
}

source_of() { # id
    local file
    for file in processors/$1.c strategies/$1/$1.c drafters/$1/$1.c drafters/model/$1.c schedulers/$1.c presses/$1.c plugins/$1/$1.c plugins/$1/$1.lua; do
        [ -f "$root/$file" ] || continue
        printf '\nIts source is [`%s`](../../%s), written on the public headers alone.\n' "$file" "$file"
        return 0
    done
}

{
    printf '# Built-in plugins\n\nOne page each, written by `tools/docs/plugin-pages.sh` from the plugins'\'' own tables.\n'
    printf '`cadenza plugin info ID` shows the same on a terminal. The settings of the host have [a page](settings.md) of their own.\n\n| plugin | kind | what it does |\n|---|---|---|\n'
} >"$out/README.md"
env -u CADENZA_PLUGIN_DIR "$cadenza" explain --settings >"$out/settings.md"
for id in $ids; do
    line=$(grep "^$id|" "$root/tools/docs/examples.txt") || {
        echo "plugin-pages: $id has no example: add a line to tools/docs/examples.txt" >&2
        exit 1
    }
    IFS='|' read -r _ prompt set assistant own <<<"$line"
    {
        "$cadenza" plugin page "$id"
        if is_scheduler "$id"; then
            scheduler_example "$id" "$prompt" "$set" "$own"
        elif is_press "$id"; then
            press_example "$id" "$prompt" "$set" "$own"
        else
            ini_example "$id" "$prompt" "$set" "$assistant" "$own"
            c_example "$id" "$prompt" "$set" "$assistant" "$own"
        fi
        lua_example "$id" "$prompt" "$set"
        source_of "$id"
    } >"$out/$id.md"
    about=$(sed -n 3p "$out/$id.md")
    kind=$(sed 's/.*\. An\{0,1\} \([a-z ]*\), version.*/\1/' <<<"$about")
    printf '| [%s](%s.md) | %s | %s |\n' "$id" "$id" "$kind" "${about%%. A*}" >>"$out/README.md"
done
