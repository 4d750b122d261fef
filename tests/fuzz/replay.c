/// Runs a fuzz target without libFuzzer: over the files of the folders given, then over mutations
/// of them from a fixed seed, so that every run of every build sees the same inputs. When the
/// target aborts or crashes, the input is printed in hex. One thread.
///
///     replay_codec FOLDER...             seeds and 20,000 mutations
///     QPC_FUZZ_ROUNDS=1000000 replay_codec FOLDER...
#include "tests/fuzz/fuzz.h"

#include <dirent.h>
#include <signal.h>
#include <unistd.h>

enum { INPUT_MAX = 1 << 17, SEEDS_MAX = 1024, ROUNDS = 20000 };

typedef struct seed {
    char *path;
    uint8_t *bytes;
    size_t size;
} seed;

static seed seeds[SEEDS_MAX];
static int seed_count;
static uint8_t input[INPUT_MAX];
static size_t input_size;

static uint64_t random_state = 20060924;
static uint64_t next_random(void) {
    uint64_t z = random_state += 0x9e3779b97f4a7c15ULL;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
}
static size_t below(size_t n) {
    return n > 0 ? (size_t)(next_random() % n) : 0;
}

/// Async-signal-safe: the input that did it.
static void show_input(int signal_number) {
    static const char digits[] = "0123456789abcdef";
    char hex[2 * 1024 + 1];
    size_t shown = input_size < 1024 ? input_size : 1024;
    for (size_t i = 0; i < shown; i++) {
        hex[2 * i] = digits[input[i] >> 4];
        hex[2 * i + 1] = digits[input[i] & 15];
    }
    hex[2 * shown] = '\n';
    ssize_t wrote = write(2, "input: ", 7);
    wrote += write(2, hex, 2 * shown + 1);
    (void)wrote;
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

static void run(void) {
    // A copy of exactly that size, so that sanitizers see a read beyond it.
    uint8_t *copy = malloc(input_size > 0 ? input_size : 1);
    if (copy == NULL) abort();
    memcpy(copy, input, input_size);
    LLVMFuzzerTestOneInput(copy, input_size);
    free(copy);
}

static int by_path(const void *a, const void *b) {
    return strcmp(((const seed *)a)->path, ((const seed *)b)->path);
}

static void read_folder(const char *folder) {
    DIR *dir = opendir(folder);
    struct dirent *entry;
    if (dir == NULL) {
        fprintf(stderr, "%s cannot be read\n", folder);
        exit(1);
    }
    while ((entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] == '.' || seed_count == SEEDS_MAX) continue;
        seed *s = &seeds[seed_count];
        size_t room = strlen(folder) + strlen(entry->d_name) + 2;
        s->path = malloc(room);
        s->bytes = malloc(INPUT_MAX);
        if (s->path == NULL || s->bytes == NULL) abort();
        snprintf(s->path, room, "%s/%s", folder, entry->d_name);
        FILE *f = fopen(s->path, "rb");
        if (f != NULL) {
            s->size = fread(s->bytes, 1, INPUT_MAX, f);
            fclose(f);
            uint8_t *fitted = realloc(s->bytes, s->size > 0 ? s->size : 1);
            if (fitted != NULL) s->bytes = fitted;
            seed_count++;
        } else {
            free(s->path);
            free(s->bytes);
        }
    }
    closedir(dir);
}

static void set_input(const seed *s) {
    memcpy(input, s->bytes, s->size);
    input_size = s->size;
}

/// One random change of the input.
static void mutate(void) {
    static const uint8_t telling[] = {0x00, 0x7f, 0x80, 0x8f, 0x90, 0x91, 0x9f, 0xa0, 0xc0, 0xc1,
                                      0xc4, 0xc6, 0xc7, 0xca, 0xcb, 0xcf, 0xd3, 0xd4, 0xd9, 0xdb,
                                      0xdc, 0xdd, 0xde, 0xdf, 0xff, '"',  '{',  '}',  '[',  ']',
                                      ',',  ':',  '-',  '0',  '9',  'e',  '.',  '\\', ' ',  'n'};
    size_t at = below(input_size), count = 1 + below(8);
    switch (below(7)) {
    case 0: // a bit
        if (input_size > 0) input[at] ^= (uint8_t)(1U << below(8));
        break;
    case 1: // a byte that means something
        if (input_size > 0) input[at] = telling[below(sizeof telling)];
        break;
    case 2: // any byte
        if (input_size > 0) input[at] = (uint8_t)next_random();
        break;
    case 3: // cut out
        if (count > input_size - at) count = input_size - at;
        memmove(input + at, input + at + count, input_size - at - count);
        input_size -= count;
        break;
    case 4: // put in
        if (count > INPUT_MAX - input_size) break;
        memmove(input + at + count, input + at, input_size - at);
        for (size_t i = 0; i < count; i++) input[at + i] = telling[below(sizeof telling)];
        input_size += count;
        break;
    case 5: // cut short
        input_size = at;
        break;
    default: { // a piece of another seed
        const seed *other = &seeds[below((size_t)seed_count)];
        size_t from = below(other->size);
        size_t size = below(other->size - from + 1);
        if (size > INPUT_MAX - at) size = INPUT_MAX - at;
        if (size > 0) memcpy(input + at, other->bytes + from, size);
        if (at + size > input_size) input_size = at + size;
        break;
    }
    }
}

int main(int argc, char **argv) {
    const char *wanted = getenv("QPC_FUZZ_ROUNDS");
    long rounds = wanted != NULL ? strtol(wanted, NULL, 10) : ROUNDS;
    signal(SIGABRT, show_input);
    signal(SIGSEGV, show_input);
    for (int i = 1; i < argc; i++) read_folder(argv[i]);
    if (seed_count == 0) {
        fprintf(stderr, "usage: %s FOLDER...\n", argv[0]);
        return 2;
    }
    // The order of a folder is not the same everywhere.
    qsort(seeds, (size_t)seed_count, sizeof seeds[0], by_path);
    input_size = 0;
    run();
    for (int i = 0; i < seed_count; i++) {
        set_input(&seeds[i]);
        run();
    }
    for (long i = 0; i < rounds; i++) {
        set_input(&seeds[below((size_t)seed_count)]);
        for (size_t n = 1 + below(6); n > 0; n--) mutate();
        run();
    }
    printf("%d seeds and %ld mutations\n", seed_count, rounds);
    for (int i = 0; i < seed_count; i++) {
        free(seeds[i].path);
        free(seeds[i].bytes);
    }
    return 0;
}
