/// Options of the daemon: flag --x-y, environment QPC_X_Y, file [qpcollided] x-y = value; a flag wins
/// over the environment, which wins over the file, which wins over the default. One table gives the
/// names, ranges, defaults and the text of --help.
#ifndef QPC_SERVER_OPTIONS_H
#define QPC_SERVER_OPTIONS_H

#include "base/log.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    QPC_LISTEN_MAX = 16,
    QPC_ADDRESS_SIZE = 128,
    QPC_PATH_SIZE = 512,
    QPC_UNIX_PATH_SIZE = 104,
    QPC_TOKEN_SIZE = 256,
};

typedef struct qpc_options {
    char listen[QPC_LISTEN_MAX][QPC_ADDRESS_SIZE]; // HOST:PORT, IPv6 hosts in brackets
    int32_t listen_count;
    bool listen_default; // nobody asked: a missing address family is not an error
    char unix_path[QPC_PATH_SIZE]; // "": none
    char port_file[QPC_PATH_SIZE];
    char data_dir[QPC_PATH_SIZE];
    char token_file[QPC_PATH_SIZE];
    char config_file[QPC_PATH_SIZE];
    char token[QPC_TOKEN_SIZE]; // read from token_file
    int32_t token_size;         // 0: no token is asked for
    qpc_log_level log_level;
    bool record; // false: --no-record
    bool help, version;
    int64_t workers, nice, spin_us;
    int64_t max_connections, max_message_bytes, max_depth, max_items;
    int64_t max_requests_queued, max_session_bytes, max_total_bytes, max_queued_bytes;
    int64_t max_meshes, max_mesh_bytes, max_vertices, max_elements;
    int64_t max_worlds, max_world_memory, max_worlds_memory, max_nodes;
    int64_t storage_queue_bytes;
    int64_t read_timeout_s, idle_exit_s, drain_s;
} qpc_options;

/// Everything from flags, environment (environ-like list) and file, checked; reads the token file.
/// QPC_ERR_INVALID: the message names the option, the value and what would be right. With --help or
/// --version nothing else is looked at.
qpc_status qpc_options_parse(int argc, char *const *argv, char *const *environment,
                             qpc_options *ret, qpc_error *err);
/// The text of --help, newly allocated (qpc_free); NULL when memory is out.
char *qpc_options_help(void);
/// "host:port" or "[v6]:port" into its parts; port 0 is legal.
qpc_status qpc_options_split_address(const char *text, char *host, int host_size, int *ret_port,
                                     qpc_error *err);
/// 127.0.0.0/8, ::1 or "localhost".
bool qpc_options_host_is_loopback(const char *host);

#endif
