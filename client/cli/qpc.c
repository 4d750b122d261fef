/// The `qpc` command: which command it is, signals, and the end of the connection.
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/nearest.h"
#include "client/cli/cli.h"

static volatile sig_atomic_t signalled;

static void on_signal(int number) {
    (void)number;
    signalled = 1;
}

bool cli_interrupted(void) {
    return signalled != 0;
}

static const struct {
    const char *name, *doc;
    cli_exit (*run)(cli *c, int argc, char **argv);
} commands[] = {
    {"run", "make a world of a scene, step it, say how it went", cli_run},
    {"check", "have the server check a scene or a mesh file", cli_check},
    {"mesh", "make or convert a mesh", cli_mesh},
    {"upload", "send a mesh to the server", cli_upload},
    {"worlds", "list the worlds that live on the server", cli_worlds},
    {"runs", "list the recorded runs", cli_runs},
    {"show", "what a recorded run is of, and its figures", cli_show},
    {"diagnostics", "the figures of every step of a run", cli_diagnostics},
    {"events", "what happened in a recorded run", cli_events},
    {"forces", "the forces of a step of a run, and what contradicted", cli_forces},
    {"stats", "counters of the server", cli_stats},
};
enum { COMMAND_COUNT = sizeof commands / sizeof commands[0] };

static void print_usage(FILE *out) {
    fprintf(out, "usage: qpc COMMAND [arguments] [options]\n\n"
                 "Command line of qpcollided, the collision simulation server.\n\ncommands:\n");
    for (int i = 0; i < COMMAND_COUNT; i++)
        fprintf(out, "  %-12s %s\n", commands[i].name, commands[i].doc);
    fprintf(out, "\nqpc COMMAND --help says what a command takes; qpc --version what this is.\n\n"
                 "exit codes:\n"
                 "  0    done\n"
                 "  1    the server answered with an error\n"
                 "  2    wrong usage\n"
                 "  3    no connection to a server, or it was lost\n"
                 "  4    a file or scene is bad\n"
                 "  5    a step of the run failed or was not proven to be free of contact\n"
                 "  130  interrupted\n\n"
                 "environment:\n"
                 "  QPC_SERVER   address to use when --server is not given\n"
                 "  QPCOLLIDED   path of qpcollided for private daemons\n");
}

int main(int argc, char **argv) {
    if (argc < 2) {
        print_usage(stderr);
        return CLI_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0) {
        print_usage(stdout);
        return CLI_OK;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("qpc %s\n", QPC_VERSION);
        return CLI_OK;
    }
    int which = 0;
    while (which < COMMAND_COUNT && strcmp(argv[1], commands[which].name) != 0) which++;
    if (which == COMMAND_COUNT) {
        const char *names[COMMAND_COUNT + 1] = {NULL};
        for (int i = 0; i < COMMAND_COUNT; i++) names[i] = commands[i].name;
        const char *near = qpc_nearest(argv[1], strlen(argv[1]), names);
        fprintf(stderr, "qpc: unknown command \"%.40s\"%s%s%s\n", argv[1],
                near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
        return CLI_USAGE;
    }
    // Without SA_RESTART, so that waiting ends; the second signal kills.
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    cli c = {0};
    cli_exit code = commands[which].run(&c, argc - 1, argv + 1);
    cli_disconnect(&c);
    if (fflush(stdout) != 0 && code == CLI_OK) code = CLI_BAD_FILE;
    return code;
}
