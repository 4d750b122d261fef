/// The `qpc` command: what its files share.
///
/// One process, one thread, one connection. Output for people goes to standard output, progress and
/// errors to standard error; with --json standard output is exactly one JSON document, also when
/// the command fails ({"error": {code, name, message, data}}).
#ifndef QPC_CLI_CLI_H
#define QPC_CLI_CLI_H

#include "client/libqpc/qpc.h"
#include "client/meshio/meshdata.h"

#include <sys/types.h>

typedef enum cli_exit {
    CLI_OK = 0,
    CLI_SERVER_ERROR = 1, // the server answered with an error
    CLI_USAGE = 2,
    CLI_NO_CONNECTION = 3,
    CLI_BAD_FILE = 4, // a file or scene is bad
    CLI_RUN_FAILED = 5,
    CLI_INTERRUPTED = 130,
} cli_exit;

typedef struct cli {
    const char *server, *token_file, *data_dir; // options; NULL if not given
    bool json, quiet;
    const char *timeout; // s
    qpc_client *client;
    char address[256]; // of the client
    qpc_server_info info;
    pid_t daemon;         // private daemon of ours, 0 if none
    char daemon_dir[128]; // its folder for socket and log
} cli;

/// Set by SIGINT and SIGTERM.
bool cli_interrupted(void);

// ---- options (options.c) ----

typedef enum cli_option_type { CLI_FLAG, CLI_TEXT, CLI_COUNT, CLI_NUMBER } cli_option_type;
typedef struct cli_option {
    const char *name; // without dashes; a single letter is short
    cli_option_type type;
    void *target; // bool, const char *, int64_t, double
    const char *argument, *doc;
} cli_option;

typedef struct cli_command {
    const char *name, *arguments, *doc;
    int least, most;     // positional arguments
    const char *details; // more text for --help; may be NULL
} cli_command;

/// Parse argv[1..]; options ends with a NULL name. positional has room for command->most. False:
/// *ret is the exit code (help was printed, or a usage error).
bool cli_parse(const cli_command *command, const cli_option *options, int argc, char **argv,
               const char **positional, int *ret_count, cli_exit *ret);

// ---- errors (output.c) ----

/// Print err ("qpc: ...", or JSON) and return code. data: of the server's answer, may be NULL.
cli_exit cli_fail(const cli *c, cli_exit code, const qpc_error *err, const qpc_value *data);
/// After a failed call: CLI_SERVER_ERROR if the server answered, CLI_INTERRUPTED, else
/// CLI_NO_CONNECTION.
cli_exit cli_fail_call(const cli *c, const qpc_error *err);
/// After a call that sends what is in a file: that is what the server (or, before it was sent, the client) refuses.
bool cli_is_of_input(const cli *c, const qpc_error *err);
/// CLI_BAD_FILE with the name of the file; data (may be NULL) goes into the JSON.
cli_exit cli_fail_file(const cli *c, const qpc_error *err, const char *path, const qpc_value *data);
/// That with the data of the answer if it is of input; else as above.
cli_exit cli_fail_input(const cli *c, const qpc_error *err, const char *path);
cli_exit cli_no_memory(const cli *c);
void cli_warn(const cli *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
/// One JSON document on standard output; frees v.
cli_exit cli_print_json(const cli *c, qpc_value *v);

/// Look-ups that give a standard value for what is missing or of another type.
const qpc_value *cli_at(const qpc_value *map, const char *key); // nil if missing
double cli_real(const qpc_value *map, const char *key, double standard);
int64_t cli_int(const qpc_value *map, const char *key, int64_t standard);
const char *cli_text(const qpc_value *map, const char *key, char *buffer, size_t size);
/// Element i of a numeric tensor as a double; NaN beyond its end.
double cli_tensor_at(const qpc_tensor *t, int64_t i);
/// How many steps were proven to be free of contact, and of how many nobody says it.
void cli_print_proof(int64_t proven, int64_t not_proven, int64_t unknown);
/// Bodies of a result as "2 bodies, 100 nodes that move".
void cli_print_bodies(const qpc_value *bodies);
/// Pairs of bodies: {bodies: [a, b], features: [i, j], depth}.
void cli_print_pairs(FILE *out, const qpc_value *pairs, const qpc_value *bodies);

// ---- progress (output.c) ----

typedef struct cli_progress {
    bool on, terminal;
    const char *label;
    int64_t shown_ms, started_ms;
    int percent;
} cli_progress;
void cli_progress_start(cli_progress *p, const cli *c, const char *label);
void cli_progress_show(cli_progress *p, double part, const char *text);
void cli_progress_end(cli_progress *p);

// ---- the server (session.c) ----

/// Connect: to --server (or $QPC_SERVER), else to the default address if one listens there, else,
/// if `private_allowed`, to a private daemon started for this command. Says hello.
cli_exit cli_connect(cli *c, bool private_allowed);
/// Connect again to the same address.
qpc_status cli_reconnect(cli *c, qpc_error *err);
/// Close the connection and stop the private daemon, waiting until it has written everything.
void cli_disconnect(cli *c);

// ---- scenes (scene_upload.c) ----

/// Meshes of a scene that wait to be uploaded.
typedef struct cli_meshes {
    struct cli_mesh *items;
    int32_t count, capacity;
} cli_meshes;
/// Read and resolve a scene file.
cli_exit cli_read_scene(const cli *c, const char *path, qpc_value *ret_scene,
                        cli_meshes *ret_meshes);
/// Send the meshes of the scene file `path`.
cli_exit cli_upload_meshes(cli *c, const char *path, const cli_meshes *meshes);
void cli_meshes_fini(cli_meshes *meshes);
/// Set a key of a scene map; a copy of the key is not needed.
bool cli_set(qpc_value *map, const char *key, qpc_value v);

// ---- runs (runs.c) ----

/// The whole id of a run given as id, beginning of one, path of its file, or "last", and its entry of run.list
/// (copied).
cli_exit cli_find_run(cli *c, const char *text, char ret_id[33], qpc_value *ret_entry);
/// Median and 99th percentile of n values (sorted in place); NaN if none.
void cli_quantiles(double *values, int64_t n, double *ret_median, double *ret_p99);

typedef struct cli_times { // ms; NaN if the run has none
    double cpu_median, cpu_p99, wall_median, wall_p99;
    int64_t steps;
} cli_times;
/// From run.diagnostics of a whole run.
qpc_status cli_read_times(cli *c, const char *run, cli_times *ret, qpc_error *err);

// ---- pre-flight (check.c) ----

/// The ending is one of a mesh file.
bool cli_is_mesh_file(const char *path);
/// Sends the mesh and shows what the server finds; CLI_BAD_FILE if there is an error. use may be
/// NULL; list 0: the server's own.
cli_exit cli_check_mesh(cli *c, const char *path, const char *use, int64_t list);
/// scene.check of a scene whose meshes are there; *ret is the answer, owned.
cli_exit cli_check_scene_meshes(cli *c, const qpc_value *scene, qpc_value *ret);
/// One line a finding; how many there are. bodies: of scene.check, for names; may be NULL.
int32_t cli_print_findings(const qpc_value *list, const char *weight, const qpc_value *bodies);

// ---- commands ----

cli_exit cli_run(cli *c, int argc, char **argv);
cli_exit cli_check(cli *c, int argc, char **argv);
cli_exit cli_mesh(cli *c, int argc, char **argv);
cli_exit cli_upload(cli *c, int argc, char **argv);
cli_exit cli_worlds(cli *c, int argc, char **argv);
cli_exit cli_runs(cli *c, int argc, char **argv);
cli_exit cli_show(cli *c, int argc, char **argv);
cli_exit cli_diagnostics(cli *c, int argc, char **argv);
cli_exit cli_events(cli *c, int argc, char **argv);
cli_exit cli_forces(cli *c, int argc, char **argv);
cli_exit cli_stats(cli *c, int argc, char **argv);

/// The options that every command that talks to a server has.
#define CLI_SERVER_OPTIONS(c)                                                                      \
    {"server", CLI_TEXT, &(c)->server, "ADDR",                                                     \
     "host:port, [ipv6]:port or unix:/path (default: $QPC_SERVER, else 127.0.0.1:7447)"},          \
        {"token", CLI_TEXT, &(c)->token_file, "FILE", "file with the server's token"},             \
        {"timeout", CLI_TEXT, &(c)->timeout, "S", "longest wait for an answer, s (default 30)"},   \
        {"json", CLI_FLAG, &(c)->json, NULL, "print one JSON document"}, {                         \
        "quiet", CLI_FLAG, &(c)->quiet, NULL, "no progress, no remarks"                            \
    }
#define CLI_DATA_OPTION(c)                                                                         \
    {                                                                                              \
        "data", CLI_TEXT, &(c)->data_dir, "DIR",                                                   \
            "start a private daemon on this data folder, whatever listens elsewhere"               \
    }

#endif
