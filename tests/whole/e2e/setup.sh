# setup.sh - read by the scripts beside it, with their BUILD as $1: the program on the path, an empty folder with an empty
# home to work in, nothing of whoever runs the tests, and what counts. Sets build, root, work, passed, failed, skipped.
build=$(cd "$1" && pwd)
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
[ -x "$build/bin/cadenza" ] || { echo "FAILED: there is no program $build/bin/cadenza: build it first"; exit 1; }
export PATH="$build/bin:$PATH" CADENZA_PLUGIN_DIR="${CADENZA_PLUGIN_DIR:-$build/lib/cadenza}"
unset CADENZA_PLUGIN_PATH CADENZA_MODELS OLLAMA_MODELS LLAMA_CACHE HF_TOKEN HF_ENDPOINT HF_HOME HF_HUB_CACHE XDG_CACHE_HOME XDG_CONFIG_HOME XDG_DATA_HOME
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
export HOME=$work/home HF_HUB_OFFLINE=1
mkdir "$HOME"
cd "$work" || exit 1
passed=0 failed=0 skipped=0

good() { passed=$((passed + 1)); }
bad() {
    printf 'FAILED %s\n' "$*"
    failed=$((failed + 1))
}
