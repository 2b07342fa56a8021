#!/usr/bin/env bash
# run.sh - installs into a prefix, moves the prefix, and does there what a stranger would do: builds plugins from the
# templates and programs from the examples, with one compiler line and with CMake, and runs them with the shipped model.
#
#   run.sh BUILD COMPILER [SANITIZERS]
set -euo pipefail
build=$1 compiler=$2 sanitize=${3:-}
case $sanitize in
*thread*) # what it builds are programs of one thread, and foreign plugins without instrumentation
    echo "skipped install: nothing in it is for the thread sanitizer"
    exit 77
    ;;
esac
unset CADENZA_PLUGIN_DIR CADENZA_PLUGIN_PATH PKG_CONFIG_PATH LD_LIBRARY_PATH
export CMAKE_GENERATOR=Ninja # what this project is built with; make need not be there
prompt="river (noun):"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0

# Runs a command; on failure shows what it said. Its output is in $work/out.
try() { # name command...
    local name=$1
    shift
    if "$@" >"$work/out" 2>"$work/err"; then
        passed=$((passed + 1))
        echo "ok: $name"
    else
        echo "FAILED (status $?): $name: $*"
        sed 's/^/    /' "$work/out" "$work/err"
        exit 1
    fi
}

expect() { # name pattern: in what the last command printed
    grep -qE -- "$2" "$work/out" && passed=$((passed + 1)) && echo "ok: $1" && return
    echo "FAILED: $1: no line matches '$2' in"
    sed 's/^/    /' "$work/out"
    exit 1
}

refuse() { # name status sentence command...
    local name=$1 status=$2 sentence=$3 got=0
    shift 3
    "$@" >"$work/out" 2>"$work/err" || got=$?
    if [ $got -ne "$status" ] || ! grep -qE -- "$sentence" "$work/err"; then
        echo "FAILED: $name: status $got, expected $status and '$sentence'; it said"
        sed 's/^/    /' "$work/out" "$work/err"
        exit 1
    fi
    passed=$((passed + 1))
    echo "ok: $name"
}

# --- the prefix, moved -------------------------------------------------------------------------------------
try "install" cmake --install "$build" --prefix "$work/first"
mv "$work/first" "$work/prefix with a space"
ln -s "$work/prefix with a space" "$work/moved"
prefix=$work/moved
[ ! -e "$work/first" ]
for page in cadenza cadenza-run cadenza-plugin-test; do
    try "a page of the manual: $page" test -s "$prefix/share/man/man1/$page.1"
done
for file in bash-completion/completions/cadenza zsh/site-functions/_cadenza fish/vendor_completions.d/cadenza.fish; do
    try "completions: $file" test -s "$prefix/share/$file"
done
cadenza=$prefix/bin/cadenza
model=$prefix/share/cadenza/models/pocket-dictionary
draft=$prefix/share/cadenza/models/pocket-dictionary-draft
[ -x "$cadenza" ] || { echo "FAILED: the prefix has no bin/cadenza: is the program built?"; exit 1; }
[ -d "$model" ] || { echo "FAILED: the prefix has no share/cadenza/models/pocket-dictionary"; exit 1; }

try "the program runs from the moved prefix" "$cadenza" version
try "it finds its plugins" "$cadenza" plugin list
expect "built-in strategies are listed" '^ *greedy '
expect "packages are listed" '^ *org\.cadenza\.sampling-with-kvcache '
try "it finds the shipped model" "$cadenza" run -p "$prompt" -s max_new_tokens=8 -s do_sample=false
[ -s "$work/out" ] || { echo "FAILED: run printed nothing"; exit 1; }
if grep -rIl --include='*.pc' --include='*.cmake' -e "$work" -e "$build" "$prefix/lib/" 2>/dev/null; then
    echo "FAILED: these files name the place they were built or installed in"
    exit 1
fi

# --- plugins from the templates, out of the tree -------------------------------------------------------------
pc() { env PKG_CONFIG_PATH="$work/pc" pkg-config "$@"; }
pcdir=$(dirname "$(find -L "$prefix" -name cadenza.pc)")
ln -s "$pcdir" "$work/pc"
san=${sanitize:+-fsanitize=$sanitize}
warnings="-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror"

compile_plugin() { # folder source
    # shellcheck disable=SC2046,SC2086
    (cd "$1" && eval "$compiler" -std=c17 -O2 $warnings -shared -fPIC -fvisibility=hidden \
        $(pc --cflags cadenza-sdk) "$2.c" -o "$2.so")
}

kinds="processor criterion strategy drafter observer press"
export CADENZA=$cadenza HOME=$work/home
unset XDG_CONFIG_HOME XDG_DATA_HOME
mkdir "$HOME"
for kind in $kinds loader scheduler; do
    try "a new $kind in C" "$cadenza" plugin new "$work/my_$kind" --kind "$kind" --lang c
    try "a $kind compiles with one line" compile_plugin "$work/my_$kind" "my_$kind"
    try "plugin info of the $kind" "$cadenza" plugin info "$work/my_$kind"
    expect "its id is shown" "^id +org\.example\.my-$kind\$"
    try "the $kind passes its own test" sh "$work/my_$kind/test.sh"
    try "the $kind passes the conformance kit" "$cadenza" plugin test "$work/my_$kind" --seed 1
    [ "$kind" != scheduler ] || continue
    try "a pipeline uses the $kind" "$cadenza" run -p "$prompt" -s do_sample=false \
        --plugin "$work/my_$kind" --pipeline "$work/my_$kind/story.ini"
done
try "my_scheduler is added" "$cadenza" plugin add "$work/my_scheduler" --yes
try "a server has it by its id, from anywhere" "$cadenza" serve --config "$work/my_scheduler/server.ini" --check-config
try "my_scheduler is removed" "$cadenza" plugin remove org.example.my-scheduler

# --- and in Lua; then both are added, and used by id -----------------------------------------------------------
for kind in $kinds; do
    try "a new $kind in Lua" "$cadenza" plugin new "$work/lua_$kind" --kind "$kind" --lang lua
    try "plugin info of the Lua $kind" "$cadenza" plugin info "$work/lua_$kind"
    try "the Lua $kind passes its own test" sh "$work/lua_$kind/test.sh"
    try "a pipeline uses the Lua $kind" "$cadenza" run -p "$prompt" -s do_sample=false \
        --plugin "$work/lua_$kind" --pipeline "$work/lua_$kind/story.ini"
    for package in my_$kind lua_$kind; do
        try "$package is added" "$cadenza" plugin add "$work/$package" --yes
        try "$package runs by its id, from anywhere" "$cadenza" run -p "$prompt" -s do_sample=false \
            --pipeline "$work/$package/story.ini"
        try "$package is removed" "$cadenza" plugin remove "org.example.${package/_/-}"
        [ ! -e "$HOME/.local/share/cadenza/plugins/org.example.${package/_/-}" ]
    done
done
try "my_loader is added" "$cadenza" plugin add "$work/my_loader" --yes
try "its file is opened from anywhere" "$cadenza" run -p "$prompt" -s do_sample=false \
    --pipeline "$work/my_loader/story.ini"
try "my_loader is removed" "$cadenza" plugin remove org.example.my-loader
try "the strategy as custom generate, avoiding nothing" "$cadenza" run "$model" -p "$prompt" --json \
    --custom-generate "$work/my_strategy" -s max_new_tokens=12
cp "$work/out" "$work/free"
token=$(tr -d ' \n' <"$work/free" | sed -n 's/.*"ids":\[*\([0-9]*\).*/\1/p')
[ -n "$token" ] || { echo "FAILED: no ids in"; cat "$work/free"; exit 1; }
try "its own parameter is routed to it" "$cadenza" run "$model" -p "$prompt" --json \
    --custom-generate "$work/my_strategy" -s max_new_tokens=12 -s "avoid=$token"
if tr -d ' \n' <"$work/out" | grep -qE "\"ids\":\[*([0-9]+,)*$token[],]"; then
    echo "FAILED: token $token was to be avoided:"
    cat "$work/out"
    exit 1
fi
refuse "an unknown parameter is refused by name" 2 "avoids" "$cadenza" run "$model" -p "$prompt" \
    --custom-generate "$work/my_strategy" -s avoids=1

for kind in $kinds; do
    try "cmake configures the $kind" cmake -S "$work/my_$kind" -B "$work/cmake-$kind" -Wno-dev \
        -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER="${compiler%% *}"
    try "cmake builds the $kind" cmake --build "$work/cmake-$kind"
    try "the package cmake built loads" "$cadenza" plugin info "$work/cmake-$kind/my_$kind"
    try "ctest runs its test" env -u CADENZA ctest --test-dir "$work/cmake-$kind" --output-on-failure
    expect "and it counts" '100% tests passed, 0 tests failed out of 1'
done

for name in fading_penalty backtrack; do
    cp -r "$prefix/share/cadenza/examples/plugins/$name" "$work/$name"
    try "the example $name compiles" compile_plugin "$work/$name" "$name"
    try "the example $name passes the conformance kit" "$cadenza" plugin test \
        "$work/$name/$name.so" --seed 1
    try "the example $name runs" "$cadenza" run -p "$prompt" -s do_sample=false \
        --plugin "$work/$name/$name.so" --pipeline "$work/$name/story.ini"
done
refuse "a native plugin that is merely found is not loaded" 1 "cadenza plugin add .*my_strategy. shows and pins it" \
    env CADENZA_PLUGIN_PATH="$work" "$cadenza" plugin info org.example.my-strategy

# --- the tutorial, word by word, with nothing but this prefix --------------------------------------------------
tutorial=$(cd "$(dirname "$0")/../../.." && pwd)/docs/first-plugin.md
try "docs/first-plugin.md" env PKG_CONFIG_PATH="$work/pc" CADENZA_PLUGIN_DIR="$(dirname "$pcdir")/cadenza" \
    "$(dirname "$tutorial")/../tests/whole/docs/run.sh" "$prefix" "$tutorial"
expect "every block of it ran" '^COUNTED 1[0-9] passed, 0 failed'

# --- programs that embed the library --------------------------------------------------------------------------
compile_program() { # name
    # shellcheck disable=SC2046,SC2086
    eval "$compiler" -std=c17 -O2 $warnings $san "'$prefix/share/cadenza/examples/embed/$1.c'" \
        $(pc --cflags --libs cadenza) -o "'$work/$1'"
}
export LD_LIBRARY_PATH
LD_LIBRARY_PATH=$(dirname "$pcdir")
for name in simple stream; do try "the example $name compiles" compile_program "$name"; done
try "simple.c generates" "$work/simple" "$model" "$prompt"
[ -s "$work/out" ] || { echo "FAILED: simple printed nothing"; exit 1; }
refuse "simple.c says what is wrong" 1 "simple: .*nowhere" "$work/simple" "$work/nowhere" "$prompt"
try "stream.c streams from two models" "$work/stream" "$model" "$draft" "$prompt"
expect "tokens arrive by callback" '^short: [0-9]+ ids'
expect "the short one ends by length" '^short: ended after 12 tokens: length'
expect "the long one is cancelled" '^long: ended after [0-9]+ tokens: cancelled'

cat >"$work/CMakeLists.txt" <<'LISTS'
cmake_minimum_required(VERSION 3.25)
project(embedder LANGUAGES C)
find_package(cadenza 0.1 REQUIRED)
add_executable(simple ${EXAMPLES}/simple.c)
target_link_libraries(simple PRIVATE cadenza::cadenza)
LISTS
unset LD_LIBRARY_PATH
try "cmake configures an embedding program" cmake -S "$work" -B "$work/cmake-embed" -Wno-dev \
    -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER="${compiler%% *}" -DCMAKE_C_FLAGS="$san" \
    -DEXAMPLES="$prefix/share/cadenza/examples/embed"
try "cmake builds it" cmake --build "$work/cmake-embed"
try "it generates" "$work/cmake-embed/simple" "$model" "$prompt"

# The library in the program itself, with what it needs besides; the plugins lie where the program says.
compile_static() {
    # shellcheck disable=SC2046,SC2086
    eval "$compiler" -std=c17 -O2 $warnings $san "'$prefix/share/cadenza/examples/embed/simple.c'" $(pc --cflags cadenza) \
        "'$(dirname "$pcdir")/libcadenza.a'" $(pc --static --libs cadenza | sed 's/-lcadenza//') -o "'$work/bin/simple'"
}
mkdir "$work/bin"
ln -s "$(dirname "$pcdir")" "$work/lib"
try "simple.c compiles with the static library" compile_static
try "it finds plugins beside itself and generates" "$work/bin/simple" "$model" "$prompt"
if ldd "$work/bin/simple" | grep libcadenza; then
    echo "FAILED: the program is not linked statically"
    exit 1
fi

# The source tree as a folder of another project: the same name, and none of Cadenza's tests.
mkdir "$work/whole"
cat >"$work/whole/CMakeLists.txt" <<'LISTS'
cmake_minimum_required(VERSION 3.25)
project(whole LANGUAGES C)
add_subdirectory(${SOURCE} cadenza)
add_executable(simple ${SOURCE}/examples/embed/simple.c)
target_link_libraries(simple PRIVATE cadenza::cadenza)
add_library(plugin MODULE ${SOURCE}/examples/plugins/backtrack/backtrack.c)
target_link_libraries(plugin PRIVATE cadenza::sdk)
LISTS
try "a project has Cadenza in a folder" cmake -S "$work/whole" -B "$work/cmake-whole" -Wno-dev \
    -DSOURCE="$(cd "$(dirname "$0")/../../.." && pwd)" -DCMAKE_C_COMPILER="${compiler%% *}"
try "it builds a plugin with the headers" cmake --build "$work/cmake-whole" --target plugin
try "its targets are listed" cmake --build "$work/cmake-whole" --target help
if grep -q test_api "$work/out"; then
    echo "FAILED: a project that has Cadenza in a folder builds its tests"
    exit 1
fi

echo "COUNTED $passed passed, 0 failed, 0 skipped"
