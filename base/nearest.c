/// Damerau-Levenshtein distance (adjacent swaps count one) over three rows on the stack.
#include "base/nearest.h"

#include <string.h>

enum { NAME_MAX_SIZE = 64 };

static unsigned char lower(char c) {
    unsigned char u = (unsigned char)c;
    return (unsigned char)(u >= 'A' && u <= 'Z' ? u + ('a' - 'A') : u);
}

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

static size_t distance(const char *a, size_t m, const char *b, size_t n) {
    size_t rows[3][NAME_MAX_SIZE + 1];
    size_t *before = rows[0], *above = rows[1], *row = rows[2];
    for (size_t j = 0; j <= n; j++) above[j] = before[j] = j;
    for (size_t i = 1; i <= m; i++) {
        row[0] = i;
        for (size_t j = 1; j <= n; j++) {
            size_t change = lower(a[i - 1]) == lower(b[j - 1]) ? 0 : 1;
            size_t d = least(above[j] + 1, row[j - 1] + 1);
            d = least(d, above[j - 1] + change);
            if (i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) &&
                lower(a[i - 2]) == lower(b[j - 1]))
                d = least(d, before[j - 2] + 1);
            row[j] = d;
        }
        size_t *spare = before;
        before = above;
        above = row;
        row = spare;
    }
    return above[n];
}

const char *qpc_nearest(const char *name, size_t size, const char *const *names) {
    const char *best = NULL;
    size_t best_distance = 0;
    size = least(size, NAME_MAX_SIZE);
    size_t allowed = size / 3 > 2 ? size / 3 : 2;
    for (; *names != NULL; names++) {
        size_t other = strnlen(*names, NAME_MAX_SIZE);
        size_t d = distance(name, size, *names, other);
        // A distance of the whole longer name means that nothing is shared.
        if (d > allowed || d >= (size > other ? size : other)) continue;
        if (best == NULL || d < best_distance) {
            best = *names;
            best_distance = d;
        }
    }
    return best;
}
