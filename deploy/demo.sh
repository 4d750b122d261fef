#!/bin/sh
# The product on real input: a heavy cable over a pulley of 13,722 triangles, 5 s of it, computed by
# a daemon of its own and recorded in a run file.
#
#   sh deploy/demo.sh [SCENE.json [SECONDS]]
#
# Installs the Debian packages it needs (deploy/packages.sh), builds an optimised binary in build/,
# starts qpcollided on a free loopback port with a fresh data folder, lets qpc upload the mesh,
# create the world, step it and print the summary, and stops the daemon. The data folder stays, so
# that the run can be looked at.
set -eu
cd "$(dirname "$0")/.."
scene=${1:-examples/scenes/pulley-1.json}
seconds=${2:-5}
build=build

say() { printf '%s\n' "$*"; }

# Run a command quietly; show the end of its output if it fails.
quietly() {
    if ! "$@" >"$log" 2>&1; then
        tail -n 40 "$log" >&2
        say "demo.sh: this failed: $*" >&2
        exit 1
    fi
}

sh deploy/packages.sh run

work=$(mktemp -d "${TMPDIR:-/tmp}/qpcollide-demo.XXXXXX")
log=$work/build.log
daemon=""
stop_now() {
    status=$?
    trap - EXIT INT TERM
    [ -n "$daemon" ] && kill "$daemon" 2>/dev/null
    exit "$status"
}
trap stop_now EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

options="--buildtype release -Dtests=false -Dbench=false"
if [ ! -f $build/build.ninja ]; then
    say "Configuring $build/ (optimised)"
    # shellcheck disable=SC2086  # a list of options
    quietly meson setup $build $options
elif ! grep -q '^buildtype = release' $build/meson-private/cmd_line.txt; then
    say "Reconfiguring $build/ (optimised)"
    # shellcheck disable=SC2086
    quietly meson setup --reconfigure $build $options
fi
say "Building"
quietly ninja -C $build
qpcollided=$build/server/qpcollided
qpc=$build/client/cli/qpc

data=$work/data
port_file=$work/port
say "Starting qpcollided (data in $data, log in $work/qpcollided.log)"
"$qpcollided" --listen 127.0.0.1:0 --data "$data" --port-file "$port_file" \
    >"$work/qpcollided.log" 2>&1 &
daemon=$!
tries=0
until [ -s "$port_file" ]; do
    tries=$((tries + 1))
    if [ $tries -gt 200 ] || ! kill -0 "$daemon" 2>/dev/null; then
        cat "$work/qpcollided.log" >&2
        say "demo.sh: qpcollided did not start" >&2
        exit 1
    fi
    sleep 0.05
done
read -r kind host port <"$port_file"
[ "$kind" = tcp ] || { say "demo.sh: no TCP port in $port_file" >&2; exit 1; }

say "Stepping $scene for $seconds s of simulated time"
status=0
"$qpc" run "$scene" --seconds "$seconds" --server "$host:$port" || status=$?

# A clean end: running steps finish, the writer empties, exit 0.
kill -TERM "$daemon" || true
stopped=0
wait "$daemon" || stopped=$?
daemon=""
if [ $stopped -ne 0 ]; then
    tail -n 20 "$work/qpcollided.log" >&2
    say "demo.sh: qpcollided ended with status $stopped instead of 0" >&2
    exit 1
fi
[ $status -eq 0 ] || { say "demo.sh: qpc ended with status $status" >&2; exit 1; }
say "qpcollided stopped cleanly."
