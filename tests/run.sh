#!/bin/sh
# Build with warnings as errors and run the tests. The last line is `N passed, N failed`.
#
#   sh tests/run.sh [options]
#
#   --suite quick|threads|all  quick leaves out the suite `slow`; threads is what of it runs on more
#                          than one thread (default: all)
#   --build DIR            build folder (default: build-test, or one named after the options)
#   --sanitize LIST        address,undefined or thread
#   --release              the optimised build, as a packager makes it
#   --validate             with the internal checkers of every step
#   --cc COMPILER          another compiler, e.g. clang
#   --only c|python        one half of the tests
#   --filter TEXT          only tests whose name has TEXT
#   --fuzz                 build the libFuzzer targets too (clang)
#
# Test programs are counted by their functions. Everything runs from the checkout; data go to
# temporary folders.
set -eu
cd "$(dirname "$0")/.."

suite=all build="" sanitize="" validate=false cc="" only="" filter="" fuzz=false type=debugoptimized
usage() {
    sed -n '2,/^[^#]/s/^# \{0,1\}//p' tests/run.sh >&2
    exit 2
}
while [ $# -gt 0 ]; do
    case "$1" in
        --validate) validate=true && shift && continue ;;
        --release) type=release && shift && continue ;;
        --fuzz) fuzz=true && shift && continue ;;
        --suite | --build | --sanitize | --cc | --only | --filter) ;;
        *) usage ;;
    esac
    [ $# -ge 2 ] || usage
    case "$1" in
        --suite) suite=$2 ;;
        --build) build=$2 ;;
        --sanitize) sanitize=$2 ;;
        --cc) cc=$2 ;;
        --only) only=$2 ;;
        --filter) filter=$2 ;;
    esac
    shift 2
done
case "$suite" in quick | threads | all) ;; *) usage ;; esac
case "$only" in "" | c | python) ;; *) usage ;; esac
if [ -z "$build" ]; then
    build=build-test
    [ -n "$cc" ] && build=$build-$(basename "$cc")
    [ -n "$sanitize" ] && build=$build-$(echo "$sanitize" | tr ',' '-')
    [ $validate = true ] && build=$build-validate
    [ $fuzz = true ] && build=$build-fuzz
    [ $type = release ] && build=$build-release
fi

sh deploy/packages.sh test

# Every option is said, so that a folder set up for something else ends up the same.
options="--buildtype $type -Dwerror=true -Dtests=true -Dbench=true -Dvalidate=$validate"
options="$options -Dfuzz=$fuzz -Db_sanitize=${sanitize:-none}"
# Clang's sanitizer runtimes live in the programs, not in the shared libraries.
options="$options -Db_lundef=$([ -n "$sanitize" ] && echo false || echo true)"
[ -n "$cc" ] && export CC="$cc"

log=$(mktemp "${TMPDIR:-/tmp}/qpcollide-tests.XXXXXX")
trap 'rm -f "$log"' EXIT
quietly() {
    if ! "$@" >"$log" 2>&1; then
        tail -n 60 "$log" >&2
        echo "tests/run.sh: this failed: $*" >&2
        echo "0 passed, 1 failed"
        exit 1
    fi
}
# The options of the last set-up are kept in the folder: a second run goes straight to ninja.
asked="$options CC=${CC:-}"
if [ ! -f "$build/build.ninja" ] || [ "$(cat "$build/qpc-options" 2>/dev/null)" != "$asked" ]; then
    echo "Configuring $build"
    wipe=""
    [ -f "$build/build.ninja" ] && wipe=--wipe
    # shellcheck disable=SC2086  # lists of options
    quietly meson setup $wipe "$build" $options
    echo "$asked" >"$build/qpc-options"
fi
# Debian's Python has the packages; another python3 may come first in PATH.
python=/usr/bin/python3
[ -x "$python" ] || python=python3
run_tests() {
    "$python" tests/support/run_tests.py --build "$build" --suite "$suite" --sanitize "$sanitize" \
        --only "$only" --filter "$filter" "$@"
}
# All of it, so that the compilers see all of it, unless only a part is asked for.
targets=""
if [ "$only" = python ] || [ "$suite" = threads ] || [ -n "$filter" ]; then
    targets=$(run_tests --targets)
fi
echo "Building $build"
# shellcheck disable=SC2086  # a list
quietly ninja -C "$build" $targets
run_tests
