/// UTF-8 checks after the table of well-formed sequences in the Unicode standard (3-7). Any thread.
#include "protocol/text.h"

#include <string.h>

static bool continues(unsigned char c) {
    return (c & 0xc0U) == 0x80U;
}

int qpc_utf8_length(const char *s, size_t size) {
    const unsigned char *p = (const unsigned char *)s;
    if (size == 0) return 0;
    unsigned char a = p[0];
    if (a < 0x80) return 1;
    if (a < 0xc2 || a > 0xf4) return 0;
    if (a < 0xe0) return size >= 2 && continues(p[1]) ? 2 : 0;
    if (size < 3) return 0;
    if (a < 0xf0) {
        unsigned char low = a == 0xe0 ? 0xa0 : 0x80, high = a == 0xed ? 0x9f : 0xbf;
        return p[1] >= low && p[1] <= high && continues(p[2]) ? 3 : 0;
    }
    unsigned char low = a == 0xf0 ? 0x90 : 0x80, high = a == 0xf4 ? 0x8f : 0xbf;
    if (size < 4) return 0;
    return p[1] >= low && p[1] <= high && continues(p[2]) && continues(p[3]) ? 4 : 0;
}

size_t qpc_utf8_prefix(const char *s, size_t size) {
    size_t i = 0;
    while (i < size) {
        // Most text is ASCII: eight bytes at a time.
        unsigned long long word;
        if (size - i >= sizeof word) {
            memcpy(&word, s + i, sizeof word);
            if ((word & 0x8080808080808080ULL) == 0) {
                i += sizeof word;
                continue;
            }
        }
        int n = qpc_utf8_length(s + i, size - i);
        if (n == 0) return i;
        i += (size_t)n;
    }
    return size;
}

void qpc_utf8_clean(const char *s, size_t size, char *out, size_t room) {
    size_t n = 0;
    for (size_t i = 0; i < size;) {
        int length = qpc_utf8_length(s + i, size - i);
        bool printable = length > 1 || (length == 1 && s[i] >= 0x20 && s[i] != 0x7f);
        size_t taken = length > 0 ? (size_t)length : 1, written = printable ? taken : 1;
        if (n + written >= room) break;
        if (printable)
            memcpy(out + n, s + i, taken);
        else
            out[n] = '?';
        n += written;
        i += taken;
    }
    out[n] = '\0';
}
