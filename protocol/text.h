/// UTF-8 for messages: what is str on the wire must be it, in both directions. Any thread; no
/// memory.
#ifndef QPC_PROTOCOL_TEXT_H
#define QPC_PROTOCOL_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/// Bytes of the UTF-8 sequence at s (1 to 4), or 0 if there is none: overlong forms, surrogates and
/// code points above U+10FFFF are not UTF-8.
int qpc_utf8_length(const char *s, size_t size);
/// Offset of the first byte that is not UTF-8, or size.
size_t qpc_utf8_prefix(const char *s, size_t size);
/// Copy into out (room bytes, at least 1), NUL-terminated: bytes that are not UTF-8 and control
/// bytes become '?', text that does not fit is cut between characters.
void qpc_utf8_clean(const char *s, size_t size, char *out, size_t room);

#endif
