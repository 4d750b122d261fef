#!/bin/sh
# Install the Debian packages that qpcollide needs, if they are missing. As root, or through sudo.
#
#   sh deploy/packages.sh [run|test|ci]
#
#   run    what building and running needs (default)
#   test   and what the test suites need
#   ci     and the second compiler with its sanitizers
#
# With nothing missing it does nothing and says nothing. QPC_SKIP_PACKAGES=1 skips it altogether,
# for systems where the dependencies come another way.
set -eu

run="gcc libc6-dev meson ninja-build pkg-config
  libuv1-dev libmsgpack-dev libsqlite3-dev libzstd-dev libssl-dev libxxhash-dev libjansson-dev
  libinih-dev libsuitesparse-dev libopenblas-dev liblapacke-dev"
test="g++ libcmocka-dev python3 python3-msgpack python3-numpy sqlite3 neovim"
ci="bash clang libclang-rt-14-dev"

case "${1:-run}" in
    run) wanted="$run" ;;
    test) wanted="$run $test" ;;
    ci) wanted="$run $test $ci" ;;
    *)
        echo "usage: packages.sh [run|test|ci]" >&2
        exit 2
        ;;
esac
[ "${QPC_SKIP_PACKAGES:-0}" = 1 ] && exit 0

if ! command -v dpkg-query >/dev/null 2>&1 || ! command -v apt-get >/dev/null 2>&1; then
    echo "packages.sh: this is no Debian; install the counterparts of these yourself:" >&2
    echo "$wanted" | sed 's/^ */    /' >&2
    exit 0
fi

missing=""
# Unknown names go to standard error and are missing too, so ask for each of those that are there.
installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' $wanted 2>/dev/null |
    sed -n 's/^installed //p') || true
for package in $wanted; do
    case "
$installed
" in
        *"
$package
"*) ;;
        *) missing="$missing $package" ;;
    esac
done
[ -z "$missing" ] && exit 0

if [ "$(id -u)" = 0 ]; then
    root=""
elif command -v sudo >/dev/null 2>&1; then
    root="sudo"
else
    echo "packages.sh: neither root nor sudo; have an administrator run" >&2
    echo "    apt-get install$missing" >&2
    exit 1
fi

echo "Installing Debian packages${root:+ with sudo}:$missing"
log=$(mktemp "${TMPDIR:-/tmp}/qpcollide-packages.XXXXXX")
apt() {
    $root env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300 "$@" \
        >>"$log" 2>&1
}
apt update || echo "The package lists could not be refreshed; going on with those that are here."
# shellcheck disable=SC2086  # a list of names
if ! apt install --no-install-recommends $missing; then
    tail -n 40 "$log" >&2
    echo "packages.sh: apt-get failed; the whole of its output is in $log" >&2
    exit 1
fi
rm -f "$log"
