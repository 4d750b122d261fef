#!/bin/sh
# embed.sh NAME IN OUT: the text of IN as a NUL-terminated C array NAME (bytes, so that neither
# quoting nor the length of string literals matters).
set -eu
{
    printf '/// Made from %s; do not edit.\n' "$(basename "$2")"
    printf 'static const char %s[] = {\n' "$1"
    od -An -v -tx1 "$2" | sed 's/ *\([0-9a-f][0-9a-f]\)/0x\1,/g'
    printf '0};\n'
} >"$3"
