/// What a row of results names beside the commit: the CPU's model and the compiler.
#ifndef QPC_BENCH_MACHINE_H
#define QPC_BENCH_MACHINE_H

#include <stdio.h>
#include <string.h>

static inline void bench_cpu(char *ret, size_t size) {
    char line[256];
    (void)snprintf(ret, size, "unknown CPU");
    FILE *f = fopen("/proc/cpuinfo", "re");
    while (f != NULL && fgets(line, sizeof line, f) != NULL) {
        char *value = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || value == NULL) continue;
        value[strcspn(value, "\n")] = 0;
        (void)snprintf(ret, size, "%s", value + 2);
        break;
    }
    if (f != NULL) (void)fclose(f);
    for (char *c = ret; *c != 0; c++)
        if (*c == ',') *c = ' ';
}

static inline const char *bench_compiler(void) {
#ifdef __clang__
    return "clang " __clang_version__;
#else
    return "gcc " __VERSION__;
#endif
}

#endif
