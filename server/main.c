/// qpcollided: options, log, and the server until it ends.
#include "base/log.h"
#include "base/mem.h"
#include "server/server.h"

#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv) {
    qpc_options options;
    qpc_error error = {0};
    if (qpc_options_parse(argc, argv, environ, &options, &error) != QPC_OK) {
        fprintf(stderr, "qpcollided: %s\nTry 'qpcollided --help'.\n", error.message);
        return QPC_EXIT_USAGE;
    }
    if (options.help) {
        char *text = qpc_options_help();
        if (text == NULL) return QPC_EXIT_OTHER;
        fputs(text, stdout);
        qpc_free(text);
        return QPC_EXIT_CLEAN;
    }
    if (options.version) {
        printf("qpcollided %s\n", QPC_VERSION);
        return QPC_EXIT_CLEAN;
    }
    qpc_log_init(options.log_level, STDERR_FILENO);
    return qpc_server_run(&options);
}
