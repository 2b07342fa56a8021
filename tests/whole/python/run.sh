#!/usr/bin/env bash
# The Python package as a user gets it: the wheel of this build, in a fresh environment, with its tests and its types.
#   run.sh BUILD
# CADENZA_PYTHON: the interpreter. CADENZA_PYTHON_SITE: a site-packages with torch 2.9.1 and transformers 5.3.0; without it the
# tests that compare with them are skipped by name. CADENZA_PYTHON_MORE=no: without Ray, Dask, lm-eval and notebooks, whose packages
# are large; where they cannot be had their tests are skipped by name. Exits with 77 where there is no Python, or no package index.
set -euo pipefail
source=$(cd "$(dirname "$0")/../../.." && pwd)
build=$(cd "$1" && pwd)
python=${CADENZA_PYTHON:-python3}

skip() {
    echo "skipped: python: $1"
    exit 77
}

"$python" -c 'import sys, venv; sys.exit(sys.version_info < (3, 9))' 2>/dev/null || skip "no Python 3.9 or later with venv"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$python" -m venv "$work/venv" || skip "no environment can be made"
bin=$work/venv/bin
"$bin/pip" install --quiet --disable-pip-version-check --retries 1 --timeout 20 scikit-build-core cffi numpy pytest mypy hypothesis \
    >"$work/pip.log" 2>&1 || skip "no package index: $(tail -n 1 "$work/pip.log")"
if [ "${CADENZA_PYTHON_MORE:-yes}" = yes ]; then
    for some in "nbclient ipykernel dask" "ray[data]" "lm-eval==0.4.13"; do
        # shellcheck disable=SC2086 # several packages
        timeout 240 "$bin/pip" install --quiet --disable-pip-version-check --retries 1 --timeout 20 $some >"$work/pip.log" 2>&1 ||
            echo "skipped: python: $some cannot be installed: $(tail -n 1 "$work/pip.log")"
    done
fi

"$bin/pip" wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir "$work/wheel" \
    -C cmake.source-dir=python/prebuilt -C cmake.define.CADENZA_BUILD="$build" -C build-dir="$work/made" "$source"
ls "$work"/wheel/cadenza_decoding-*-py3-none-linux_*.whl
"$bin/pip" install --quiet --disable-pip-version-check --no-deps "$work"/wheel/*.whl
if [ -n "${CADENZA_PYTHON_SITE:-}" ]; then
    echo "$CADENZA_PYTHON_SITE" >"$work/site.pth"
    cp "$work/site.pth" "$("$bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/cadenza_test_site.pth"
fi

cd "$work"
"$bin/python" -m pytest -q -rs -p no:cacheprovider --rootdir "$source/python/tests" "$source/python/tests"
"$bin/mypy" --config-file "$source/pyproject.toml" --cache-dir "$work/mypy" "$source/python/cadenza" "$source/python/tests/typed.py"
