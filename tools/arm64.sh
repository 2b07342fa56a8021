#!/usr/bin/env bash
# Cadenza for arm64 on another machine: Debian's cross compiler, and qemu to run what was built. `./dev test all` calls it.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
    cat <<'EOF'
usage: tools/arm64.sh [build | test | run ARGS]

Builds Cadenza for arm64 in build-arm64, with gcc-aarch64-linux-gnu and g++-aarch64-linux-gnu. The libraries' packages are
unpacked into build-arm64/root; nothing of this system's own package lists is changed.

  build      the program, the plugins and the tests
  test       build, then under qemu (package qemu-user) the tests that start no other program, with the NEON kernels and
             with the scalar ones (the default)
  run ARGS   build, then `cadenza ARGS` under qemu:  tools/arm64.sh run run -p "river (noun): a"

Exits with 77 and one sentence where the packages cannot be had.
EOF
}

root=$PWD/build-arm64/root
packages=(libc6-dev liblua5.4-dev libinih-dev libutf8proc-dev libonig-dev libedit-dev libmicrohttpd-dev libcurl4-openssl-dev libcmocka-dev
    libjansson-dev)

cannot() {
    echo "arm64: $*" >&2
    exit 77
}

# apt with lists, cache and installed packages of its own, for arm64 alone.
apt_arm64() {
    local state=$PWD/build-arm64/apt
    mkdir -p "$state"/{lists/partial,cache/archives/partial}
    touch "$state/status"
    apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures::=arm64 -o Dir::State="$state" \
        -o Dir::State::status="$state/status" -o Dir::Cache="$state/cache" -o Debug::NoLocking=1 \
        -o APT::Sandbox::User=root "$@"
}

libraries() {
    [ ! -e "$root/complete" ] || return 0
    command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || cannot "there is no apt to take the libraries from"
    echo "arm64: fetching the libraries"
    apt_arm64 update || cannot "the lists of arm64 packages cannot be had"
    apt_arm64 install -y --no-install-recommends --download-only "${packages[@]}" >/dev/null || cannot "the libraries' packages cannot be had"
    mkdir -p "$root"
    for package in build-arm64/apt/cache/archives/*.deb; do dpkg-deb -x "$package" "$root"; done
    touch "$root/complete"
}

build() {
    command -v aarch64-linux-gnu-gcc >/dev/null && command -v aarch64-linux-gnu-g++ >/dev/null ||
        cannot "the compiler is missing: apt-get install gcc-aarch64-linux-gnu g++-aarch64-linux-gnu"
    libraries
    export CADENZA_ARM64_ROOT=$root PKG_CONFIG_SYSROOT_DIR=$root
    export PKG_CONFIG_LIBDIR=$root/usr/lib/aarch64-linux-gnu/pkgconfig:$root/usr/share/pkgconfig
    cmake --preset arm64 -Wno-dev >/dev/null || cmake --preset arm64
    cmake --build --preset arm64
}

need_qemu() {
    command -v qemu-aarch64 >/dev/null || cannot "qemu-aarch64 is missing: apt-get install qemu-user"
}

# A test that starts the program would need the kernel to know how arm64 programs are run. The emulated device is plain C++: what
# it says is the same on any processor, and under qemu takes an hour.
tests() { # CADENZA_CPU
    CADENZA_CPU=$1 ctest --test-dir build-arm64 --output-on-failure --no-tests=error -j "$(nproc)" -L '^unit$' \
        -LE '^(program|far|slow|serve|isolate|cuda)$' --timeout 3600
}

case ${1:-test} in
build) build ;;
test)
    need_qemu
    build
    echo "== with the NEON kernels" && tests neon
    echo "== with the scalar kernels" && tests scalar
    ;;
run)
    need_qemu
    build >&2
    shift
    exec qemu-aarch64 -L "$root" build-arm64/bin/cadenza "$@"
    ;;
help | -h | --help) usage ;;
*)
    usage >&2
    exit 2
    ;;
esac
