/// Runs a fuzz target over files and folders of files, in every build: the seeds as ordinary tests,
/// and a finding as a program to debug. Each seed is also cut short at every length, so that
/// truncated input is always covered. Prints TAP, one line a file.
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { CUT_MOST = 4096 }; // files longer than this are cut at a hundred places only

static int file_count;

/// The bytes are copied into a block of their exact size, where ASan sees any step beyond the end.
static void run_bytes(const uint8_t *bytes, size_t size) {
    uint8_t *exact = malloc(size > 0 ? size : 1);
    if (exact == NULL) abort();
    memcpy(exact, bytes, size);
    LLVMFuzzerTestOneInput(exact, size);
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

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) run_path(argv[i]);
    printf("1..%d\n", file_count);
    if (file_count == 0) fprintf(stderr, "no seeds\n");
    return file_count == 0;
}
