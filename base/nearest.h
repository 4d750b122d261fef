/// The nearest known name to a misspelt one, for error messages.
#ifndef QPC_BASE_NEAREST_H
#define QPC_BASE_NEAREST_H

#include <stddef.h>

/// names is NULL-terminated. Damerau-Levenshtein distance, case-insensitive; NULL if nothing is
/// within max(2, a third of the length), or if the two share nothing. Of equals the first in the
/// list. Never allocates; text beyond 64 bytes is cut.
const char *qpc_nearest(const char *name, size_t size, const char *const *names);

#endif
