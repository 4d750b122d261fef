/// Runs a fuzz target over files and folders of files, in every build: the seeds as ordinary tests,
/// and a finding as a program to debug. Each seed is also cut short at every length, so that
/// truncated input is always covered. Then come mutations of the seeds from a fixed start, the same
/// in every run: 20,000, or as many as QPC_FUZZ_ROUNDS says. Prints TAP, one line a file; when the
/// target aborts or crashes, the input in hex. One thread.
#include <dirent.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    CUT_MOST = 4096,      // files longer than this are cut at a hundred places only
    SEED_MOST = 16384,    // longer ones are not mutated
    INPUT_MOST = 1 << 16, // bytes of a mutated input
    SEEDS_MOST = 1024,
    ROUNDS = 20000,
};

typedef struct seed {
    uint8_t *bytes;
    size_t size;
} seed;

static int file_count, seed_count;
static seed seeds[SEEDS_MOST];
static const uint8_t *running; // what the target is looking at
static size_t running_size;

/// Async-signal-safe: show the input that did it, as far as a line goes, and let the signal do its
/// work.
static void show_input(int signal_number) {
    static const char digits[] = "0123456789abcdef";
    static char hex[2 * 2048 + 1];
    size_t shown = running_size < 2048 ? running_size : 2048;
    for (size_t i = 0; i < shown; i++) {
        hex[2 * i] = digits[running[i] >> 4];
        hex[2 * i + 1] = digits[running[i] & 15];
    }
    hex[2 * shown] = '\n';
    ssize_t wrote = write(2, "input: ", 7);
    wrote += write(2, hex, 2 * shown + 1);
    (void)wrote;
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

/// The bytes are copied into a block of their exact size, where ASan sees any step beyond the end.
static void run_bytes(const uint8_t *bytes, size_t size) {
    uint8_t *exact = malloc(size > 0 ? size : 1);
    if (exact == NULL) abort();
    if (size > 0) memcpy(exact, bytes, size);
    running = exact;
    running_size = size;
    LLVMFuzzerTestOneInput(exact, size);
    running_size = 0;
    free(exact);
}

static void run_file(const char *path) {
    FILE *file = fopen(path, "rb");
    if (file == NULL || fseek(file, 0, SEEK_END) != 0) {
        printf("not ok %d - %s cannot be read\n", ++file_count, path);
        exit(1);
    }
    long size = ftell(file);
    rewind(file);
    uint8_t *bytes = malloc(size > 0 ? (size_t)size : 1);
    if (bytes == NULL || fread(bytes, 1, (size_t)size, file) != (size_t)size) abort();
    fclose(file);
    long step = size <= CUT_MOST ? 1 : size / 100;
    for (long cut = 0; cut < size; cut += step) run_bytes(bytes, (size_t)cut);
    run_bytes(bytes, (size_t)size);
    if (size <= SEED_MOST && seed_count < SEEDS_MOST)
        seeds[seed_count++] = (seed){bytes, (size_t)size};
    else
        free(bytes);
    const char *name = strrchr(path, '/');
    printf("ok %d - %s\n", ++file_count, name != NULL ? name + 1 : path);
    fflush(stdout);
}

static void run_path(const char *path) {
    struct stat info;
    if (stat(path, &info) != 0 || !S_ISDIR(info.st_mode)) {
        run_file(path);
        return;
    }
    struct dirent **entries = NULL;
    int count = scandir(path, &entries, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        char below[4096];
        if (entries[i]->d_name[0] != '.') {
            snprintf(below, sizeof below, "%s/%s", path, entries[i]->d_name);
            run_path(below);
        }
        free(entries[i]);
    }
    free(entries);
}

// ---- mutations ----

/// splitmix64
static uint64_t next_random(void) {
    static uint64_t state = 20060924;
    uint64_t z = state += 0x9e3779b97f4a7c15ULL;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
}

/// 0 to n - 1; 0 for n = 0.
static size_t below(size_t n) {
    return n > 0 ? (size_t)(next_random() % n) : 0;
}

/// One random change; returns the new size.
static size_t mutate(uint8_t *input, size_t size) {
    // Bytes that mean something in MessagePack or in JSON.
    static const uint8_t telling[] = {0x00, 0x7f, 0x80, 0x8f, 0x90, 0x91, 0x9f, 0xa0, 0xc0, 0xc1,
                                      0xc4, 0xc6, 0xc7, 0xca, 0xcb, 0xcf, 0xd3, 0xd4, 0xd9, 0xdb,
                                      0xdc, 0xdd, 0xde, 0xdf, 0xff, '"',  '{',  '}',  '[',  ']',
                                      ',',  ':',  '-',  '0',  '9',  'e',  '.',  '\\', ' ',  'n'};
    size_t at = below(size), count = 1 + below(8);
    switch (below(7)) {
    case 0: // a bit
        if (size > 0) input[at] ^= (uint8_t)(1U << below(8));
        return size;
    case 1: // a byte that means something
        if (size > 0) input[at] = telling[below(sizeof telling)];
        return size;
    case 2: // any byte
        if (size > 0) input[at] = (uint8_t)next_random();
        return size;
    case 3: // cut out
        if (count > size - at) count = size - at;
        memmove(input + at, input + at + count, size - at - count);
        return size - count;
    case 4: // put in
        if (count > INPUT_MOST - size) return size;
        memmove(input + at + count, input + at, size - at);
        for (size_t i = 0; i < count; i++) input[at + i] = telling[below(sizeof telling)];
        return size + count;
    case 5: // cut short
        return at;
    default: { // a piece of another seed over it
        const seed *other = &seeds[below((size_t)seed_count)];
        size_t from = below(other->size), taken = below(other->size - from + 1);
        if (taken > INPUT_MOST - at) taken = INPUT_MOST - at;
        if (taken > 0) memcpy(input + at, other->bytes + from, taken);
        return at + taken > size ? at + taken : size;
    }
    }
}

static void run_mutations(void) {
    static uint8_t input[INPUT_MOST];
    const char *wanted = getenv("QPC_FUZZ_ROUNDS");
    long rounds = wanted != NULL ? strtol(wanted, NULL, 10) : ROUNDS;
    for (long i = 0; i < rounds; i++) {
        const seed *start = &seeds[below((size_t)seed_count)];
        size_t size = start->size;
        if (size > 0) memcpy(input, start->bytes, size);
        for (size_t n = 1 + below(6); n > 0; n--) size = mutate(input, size);
        run_bytes(input, size);
    }
    printf("ok %d - %ld mutations\n", ++file_count, rounds);
}

int main(int argc, char **argv) {
    signal(SIGABRT, show_input);
    signal(SIGSEGV, show_input);
    for (int i = 1; i < argc; i++) run_path(argv[i]);
    if (file_count == 0) fprintf(stderr, "no seeds\n");
    if (seed_count > 0) run_mutations();
    printf("1..%d\n", file_count);
    for (int i = 0; i < seed_count; i++) free(seeds[i].bytes);
    return file_count == 0;
}
