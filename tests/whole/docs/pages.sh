#!/usr/bin/env bash
# The pages in docs/reference, but for those in internals/ and the package's, are what the built-in plugins' own tables give. pages.sh BUILD_FOLDER
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$root/tools/docs/plugin-pages.sh" "$1" "$work"
if ! diff -r -x internals -x python.md "$root/docs/reference" "$work"; then
    echo "docs/reference is older than the plugins: run tools/docs/plugin-pages.sh build"
    exit 1
fi
