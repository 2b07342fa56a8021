# Sourced: a fresh environment in $work/venv whose programs are in $bin, with what every run of the package's tests needs.
# CADENZA_PYTHON: the interpreter. Exits with 77 where there is no Python, or no package index.
python=${CADENZA_PYTHON:-python3}

skip() {
    echo "skipped: python: $1"
    exit 77
}

get() { # packages
    "$bin/pip" install --quiet --disable-pip-version-check --retries 1 --timeout 20 "$@" >"$work/pip.log" 2>&1
}

"$python" -c 'import sys, venv; sys.exit(sys.version_info < (3, 9))' 2>/dev/null || skip "no Python 3.9 or later with venv"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$python" -m venv "$work/venv" || skip "no environment can be made"
bin=$work/venv/bin
get cffi numpy pytest hypothesis || skip "no package index: $(tail -n 1 "$work/pip.log")"
