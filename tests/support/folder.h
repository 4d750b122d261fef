/// A folder of a test program's own, as set-up and tear-down of its group of tests.
#ifndef QPC_TESTS_SUPPORT_FOLDER_H
#define QPC_TESTS_SUPPORT_FOLDER_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char folder[] = "/tmp/qpc-test-XXXXXX";

static int make_folder(void **state) {
    (void)state;
    return mkdtemp(folder) == NULL;
}

static int remove_folder(void **state) {
    (void)state;
    char command[100];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command) != 0;
}

#endif
