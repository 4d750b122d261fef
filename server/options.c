/// Flags (getopt_long), environment and file (inih), by one table. See options.h.
///
/// Sources are applied from the weakest to the strongest: defaults, file, environment, flags. Two
/// passes go over the flags, since one of them names the file. Runs once, before any thread starts.
#include "server/options.h"

#include "base/mem.h"
#include "base/nearest.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <ini.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef enum option_kind {
    LISTEN,  // repeatable
    PATH,    // char[QPC_PATH_SIZE]
    NUMBER,  // int64
    BYTES,   // int64, K, M and G suffixes
    LEVEL,   // log level
    OFF,     // a flag that clears a bool
    ON,      // a flag that sets a bool
} option_kind;

typedef struct option_spec {
    const char *name, *argument;
    option_kind kind;
    size_t offset;
    int64_t low, high, standard;
    const char *doc;
} option_spec;

#define AT(member) offsetof(qpc_options, member)
#define KIB INT64_C(1024)
#define MIB (1024 * KIB)
#define GIB (1024 * MIB)
#define TIB (1024 * GIB)

// clang-format off
static const option_spec specs[] = {
    {"listen", "HOST:PORT", LISTEN, AT(listen), 0, 0, 0,
     "Listen here for TCP; may be given several times (in the environment and the file: separated by commas). Port 0 picks a free one. Beyond loopback --token is required. Default: 127.0.0.1:7447 and [::1]:7447."},
    {"unix", "PATH", PATH, AT(unix_path), 0, 0, 0,
     "Also listen on this Unix socket. It is made for the user of the daemon alone (mode 0600); no token is asked for on it."},
    {"port-file", "PATH", PATH, AT(port_file), 0, 0, 0,
     "After listening write one line per listener to PATH: 'tcp HOST PORT' or 'unix PATH'."},
    {"data", "DIR", PATH, AT(data_dir), 0, 0, 0,
     "Folder of the catalogue and the run files, made if missing. Default: $XDG_DATA_HOME/qpcollide or ~/.local/share/qpcollide."},
    {"workers", "N", NUMBER, AT(workers), 0, 256, 0,
     "Worker threads that step worlds. 0: as many as there are processors."},
    {"nice", "N", NUMBER, AT(nice), 0, 19, 10,
     "Niceness of the workers, so that sockets are served at once."},
    {"spin-us", "N", NUMBER, AT(spin_us), 0, 100000, 50,
     "Microseconds for which the loop and one idle worker look for work before they sleep. 0: sleep at once."},
    {"token", "FILE", PATH, AT(token_file), 0, 0, 0,
     "Ask every TCP client for this token (the first line of FILE) in hello, before any other call."},
    {"config", "FILE", PATH, AT(config_file), 0, 0, 0,
     "Read options from FILE: a section [qpcollided] with lines 'name = value', named as the flags."},
    {"log-level", "LEVEL", LEVEL, AT(log_level), 0, 0, QPC_LOG_INFO,
     "debug, info, warn, error or off; lines go to standard error."},
    {"max-connections", "N", NUMBER, AT(max_connections), 1, 100000, 1000,
     "Sessions at a time. Fewer if the limit on open files asks for it: some are kept for run files."},
    {"max-message-bytes", "BYTES", BYTES, AT(max_message_bytes), KIB, 2 * GIB - 1, 64 * MIB,
     "Longest message, in either direction."},
    {"max-depth", "N", NUMBER, AT(max_depth), 8, 32, 32,
     "Deepest nesting of arrays and maps in a message."},
    {"max-items", "N", NUMBER, AT(max_items), 1000, 1000000000, MIB,
     "Most elements of all arrays and maps of one message together (bulk data belong into tensors)."},
    {"max-requests-queued", "N", NUMBER, AT(max_requests_queued), 1, 100000, 256,
     "Requests of one session that wait for their reply; the next one gets BUSY. Also the mailbox of a world."},
    {"max-session-bytes", "BYTES", BYTES, AT(max_session_bytes), 64 * KIB, TIB, 512 * MIB,
     "Memory for unanswered input of one session: read buffer, queued requests and pending uploads."},
    {"max-total-bytes", "BYTES", BYTES, AT(max_total_bytes), MIB, TIB, 2 * GIB,
     "The same of all sessions together."},
    {"max-queued-bytes", "BYTES", BYTES, AT(max_queued_bytes), 64 * KIB, 64 * GIB, 128 * MIB,
     "Output waiting for one slow reader. Above a sixteenth of it its requests are not read; above all of it the session is closed."},
    {"max-meshes", "N", NUMBER, AT(max_meshes), 1, 1000000, 10000,
     "Meshes in the catalogue."},
    {"max-mesh-bytes", "BYTES", BYTES, AT(max_mesh_bytes), KIB, TIB, 8 * GIB,
     "Bytes of all meshes in the catalogue together."},
    {"max-vertices", "N", NUMBER, AT(max_vertices), 3, 100000000, 5000000,
     "Vertices of one mesh."},
    {"max-elements", "N", NUMBER, AT(max_elements), 1, 100000000, 5000000,
     "Elements of one mesh."},
    {"max-worlds", "N", NUMBER, AT(max_worlds), 1, 100000, 1000,
     "Worlds at a time."},
    {"max-world-memory", "BYTES", BYTES, AT(max_world_memory), 64 * KIB, TIB, 2 * GIB,
     "Memory of one world."},
    {"max-worlds-memory", "BYTES", BYTES, AT(max_worlds_memory), 64 * KIB, TIB, 8 * GIB,
     "Memory of all worlds together."},
    {"max-nodes", "N", NUMBER, AT(max_nodes), 1, 100000000, 1000000,
     "Nodes of one world."},
    {"storage-queue-bytes", "BYTES", BYTES, AT(storage_queue_bytes), 64 * KIB, 16 * GIB, 64 * MIB,
     "Recorded data on their way to the disk. When full, a world waits or drops as its scene says (record.full)."},
    {"read-timeout-s", "S", NUMBER, AT(read_timeout_s), 1, 86400, 30,
     "Close a session whose message has begun and does not go on for S seconds."},
    {"drain-s", "S", NUMBER, AT(drain_s), 1, 3600, 10,
     "When stopping, wait at most S seconds for clients to take their last replies."},
    {"no-record", NULL, OFF, AT(record), 0, 1, 1,
     "Record nothing, whatever the scenes say."},
    {"idle-exit-s", "S", NUMBER, AT(idle_exit_s), 0, 1000000, 0,
     "Stop when there has been no session for S seconds (for private daemons). 0: never."},
    {"version", NULL, ON, AT(version), 0, 1, 0, "Print the version and stop."},
    {"help", NULL, ON, AT(help), 0, 1, 0, "Print this text and stop."},
};
// clang-format on
enum { SPEC_COUNT = sizeof specs / sizeof specs[0] };

static void *member(qpc_options *options, const option_spec *spec) {
    return (char *)options + spec->offset;
}

static const option_spec *find_spec(const char *name) {
    for (int i = 0; i < SPEC_COUNT; i++) {
        if (strcmp(specs[i].name, name) == 0) return &specs[i];
    }
    return NULL;
}

// ---- one value ----

static qpc_status parse_number(const option_spec *spec, const char *source, const char *text,
                               int64_t *ret, qpc_error *err) {
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    bool good = end != text && errno == 0;
    if (good && spec->kind == BYTES) {
        int64_t unit = 1;
        int letter = toupper((unsigned char)*end);
        if (letter == 'K') unit = KIB;
        if (letter == 'M') unit = MIB;
        if (letter == 'G') unit = GIB;
        if (unit > 1) {
            end++;
            if (*end == 'i') end++;
        }
        if (*end == 'B') end++;
        good = value >= 0 && value <= INT64_MAX / unit;
        if (good) value *= unit;
    }
    if (!good || *end != '\0') {
        return qpc_fail(err, QPC_ERR_INVALID, "%s: '%s' is not a %s", source, text,
                        spec->kind == BYTES ? "number of bytes (such as 4096, 64K, 16M or 1G)"
                                            : "whole number");
    }
    if (value < spec->low || value > spec->high) {
        return qpc_fail(err, QPC_ERR_INVALID, "%s: %lld is not within %" PRId64 " to %" PRId64,
                        source, value, spec->low, spec->high);
    }
    *ret = value;
    return QPC_OK;
}

static qpc_status parse_switch(const char *source, const char *text, bool *ret, qpc_error *err) {
    static const char *const yes[] = {"1", "true", "yes", "on", NULL};
    static const char *const no[] = {"0", "false", "no", "off", "", NULL};
    for (int i = 0; yes[i] != NULL; i++) {
        if (strcasecmp(text, yes[i]) == 0) {
            *ret = true;
            return QPC_OK;
        }
    }
    for (int i = 0; no[i] != NULL; i++) {
        if (strcasecmp(text, no[i]) == 0) {
            *ret = false;
            return QPC_OK;
        }
    }
    return qpc_fail(err, QPC_ERR_INVALID, "%s: '%s' is neither yes nor no", source, text);
}

static qpc_status add_listen(qpc_options *options, const char *source, const char *text,
                             qpc_error *err) {
    // A list in the environment or the file is separated by commas.
    while (*text != '\0') {
        size_t size = strcspn(text, ",");
        const char *begin = text;
        text += size + (text[size] == ',');
        while (size > 0 && isspace((unsigned char)*begin)) begin++, size--;
        while (size > 0 && isspace((unsigned char)begin[size - 1])) size--;
        if (size == 0) continue;
        if (size >= QPC_ADDRESS_SIZE) {
            return qpc_fail(err, QPC_ERR_INVALID, "%s: the address is too long", source);
        }
        if (options->listen_count == QPC_LISTEN_MAX) {
            return qpc_fail(err, QPC_ERR_INVALID, "%s: more than %d addresses", source,
                            QPC_LISTEN_MAX);
        }
        char *slot = options->listen[options->listen_count];
        memcpy(slot, begin, size);
        slot[size] = '\0';
        char host[QPC_ADDRESS_SIZE];
        int port;
        qpc_error inner = {0};
        if (qpc_options_split_address(slot, host, sizeof host, &port, &inner) != QPC_OK) {
            return qpc_fail(err, QPC_ERR_INVALID, "%s: %s", source, inner.message);
        }
        options->listen_count++;
    }
    return QPC_OK;
}

/// source names where the value comes from ("--max-depth", "QPC_MAX_DEPTH", "file.ini:3: max-depth").
static qpc_status apply(qpc_options *options, const option_spec *spec, const char *source,
                        const char *text, qpc_error *err) {
    switch (spec->kind) {
    case LISTEN: return add_listen(options, source, text, err);
    case PATH:
        if (strlen(text) >= QPC_PATH_SIZE ||
            (spec->offset == AT(unix_path) && strlen(text) >= QPC_UNIX_PATH_SIZE)) {
            return qpc_fail(err, QPC_ERR_INVALID, "%s: the path is too long", source);
        }
        strcpy(member(options, spec), text);
        return QPC_OK;
    case NUMBER:
    case BYTES: return parse_number(spec, source, text, member(options, spec), err);
    case LEVEL:
        if (qpc_log_level_from_name(text, member(options, spec))) return QPC_OK;
        return qpc_fail(err, QPC_ERR_INVALID,
                        "%s: '%s' is not a level: want debug, info, warn, error or off", source,
                        text);
    case ON: return parse_switch(source, text, member(options, spec), err);
    case OFF: {
        bool off = false;
        qpc_status status = parse_switch(source, text, &off, err);
        if (status == QPC_OK) *(bool *)member(options, spec) = !off;
        return status;
    }
    }
    return QPC_OK;
}

// ---- sources ----

static void set_defaults(qpc_options *options) {
    memset(options, 0, sizeof *options);
    for (int i = 0; i < SPEC_COUNT; i++) {
        const option_spec *spec = &specs[i];
        switch (spec->kind) {
        case NUMBER:
        case BYTES: *(int64_t *)member(options, spec) = spec->standard; break;
        case LEVEL: *(qpc_log_level *)member(options, spec) = (qpc_log_level)spec->standard; break;
        case ON:
        case OFF: *(bool *)member(options, spec) = spec->standard != 0; break;
        case LISTEN:
        case PATH: break;
        }
    }
}

static const char *nearest_option(const char *name) {
    const char *names[SPEC_COUNT + 1] = {0};
    for (int i = 0; i < SPEC_COUNT; i++) names[i] = specs[i].name;
    return qpc_nearest(name, strlen(name), names);
}

static qpc_status unknown(const char *source, const char *name, qpc_error *err) {
    const char *near = nearest_option(name);
    return qpc_fail(err, QPC_ERR_INVALID, "%s: no such option%s%s%s", source,
                    near != NULL ? "; did you mean '" : "", near != NULL ? near : "",
                    near != NULL ? "'?" : "");
}

typedef struct file_reading {
    qpc_options *options;
    const char *path;
    bool cleared;
    qpc_status status;
    qpc_error *err;
} file_reading;

static int on_line(void *user, const char *section, const char *name, const char *value) {
    file_reading *reading = user;
    if (reading->status != QPC_OK) return 0;
    char source[QPC_PATH_SIZE + 80];
    snprintf(source, sizeof source, "%s: %s", reading->path, name);
    if (strcmp(section, "qpcollided") != 0) {
        reading->status =
            qpc_fail(reading->err, QPC_ERR_INVALID,
                     "%s is in section [%s]: options stand in section [qpcollided]", source,
                     section);
        return 0;
    }
    const option_spec *spec = find_spec(name);
    if (spec == NULL || spec->offset == AT(help) || spec->offset == AT(version) ||
        spec->offset == AT(config_file)) {
        reading->status = unknown(source, name, reading->err);
        return 0;
    }
    if (spec->kind == LISTEN && !reading->cleared) {
        reading->options->listen_count = 0;
        reading->cleared = true;
    }
    reading->status = apply(reading->options, spec, source, value, reading->err);
    return reading->status == QPC_OK;
}

static qpc_status read_file(qpc_options *options, const char *path, qpc_error *err) {
    file_reading reading = {options, path, false, QPC_OK, err};
    int rc = ini_parse(path, on_line, &reading);
    if (reading.status != QPC_OK) return reading.status;
    if (rc == -1) {
        return qpc_fail(err, QPC_ERR_INVALID, "--config: cannot read '%s': %s", path,
                        strerror(errno));
    }
    if (rc != 0) {
        return qpc_fail(err, QPC_ERR_INVALID, "%s: line %d is not 'name = value'", path, rc);
    }
    return QPC_OK;
}

/// "max-depth" -> "QPC_MAX_DEPTH"
static void environment_name(const char *name, char *out, size_t size) {
    size_t at = (size_t)snprintf(out, size, "QPC_");
    for (; *name != '\0' && at + 1 < size; name++) {
        out[at++] = (char)(*name == '-' ? '_' : toupper((unsigned char)*name));
    }
    out[at] = '\0';
}

static const char *environment_get(char *const *environment, const char *name) {
    size_t size = strlen(name);
    for (int i = 0; environment != NULL && environment[i] != NULL; i++) {
        if (strncmp(environment[i], name, size) == 0 && environment[i][size] == '=') {
            return environment[i] + size + 1;
        }
    }
    return NULL;
}

static qpc_status read_environment(qpc_options *options, char *const *environment,
                                   qpc_error *err) {
    for (int i = 0; i < SPEC_COUNT; i++) {
        if (specs[i].offset == AT(help) || specs[i].offset == AT(version)) continue;
        char name[64];
        environment_name(specs[i].name, name, sizeof name);
        const char *value = environment_get(environment, name);
        if (value == NULL || *value == '\0') continue;
        if (specs[i].kind == LISTEN) options->listen_count = 0;
        qpc_status status = apply(options, &specs[i], name, value, err);
        if (status != QPC_OK) return status;
    }
    return QPC_OK;
}

/// only: apply just this one (by offset), for the first pass; SIZE_MAX: all.
static qpc_status read_flags(qpc_options *options, int argc, char *const *argv, bool first_pass,
                             qpc_error *err) {
    struct option longs[SPEC_COUNT + 1];
    memset(longs, 0, sizeof longs);
    for (int i = 0; i < SPEC_COUNT; i++) {
        longs[i].name = specs[i].name;
        longs[i].has_arg = specs[i].argument != NULL ? required_argument : no_argument;
        longs[i].val = i + 256;
    }
    bool cleared = false;
    optind = 0; // start anew
    opterr = 0;
    for (;;) {
        int at = optind == 0 ? 1 : optind;
        int found = getopt_long(argc, argv, ":hV", longs, NULL);
        if (found == -1) break;
        const char *shown = at < argc ? argv[at] : "";
        if (found == 'h') found = (int)(find_spec("help") - specs) + 256;
        if (found == 'V') found = (int)(find_spec("version") - specs) + 256;
        if (found == ':') {
            return qpc_fail(err, QPC_ERR_INVALID, "%s wants a value", shown);
        }
        if (found < 256) {
            char name[64];
            snprintf(name, sizeof name, "%.*s", (int)strcspn(shown, "="), shown);
            return unknown(name, name[0] == '-' && name[1] == '-' ? name + 2 : name, err);
        }
        const option_spec *spec = &specs[found - 256];
        bool early = spec->offset == AT(help) || spec->offset == AT(version) ||
                     spec->offset == AT(config_file);
        if (first_pass != early) continue;
        if (spec->kind == LISTEN && !cleared) {
            options->listen_count = 0;
            cleared = true;
        }
        char source[64];
        snprintf(source, sizeof source, "--%s", spec->name);
        qpc_status status =
            apply(options, spec, source, spec->argument != NULL ? optarg : "yes", err);
        if (status != QPC_OK) return status;
    }
    if (optind < argc) {
        return qpc_fail(err, QPC_ERR_INVALID, "unexpected argument '%.100s': see --help",
                        argv[optind]);
    }
    return QPC_OK;
}

// ---- what follows from the values ----

qpc_status qpc_options_split_address(const char *text, char *host, int host_size, int *ret_port,
                                     qpc_error *err) {
    const char *begin = text, *end, *port;
    if (*text == '[') {
        begin = text + 1;
        end = strchr(begin, ']');
        port = end != NULL && end[1] == ':' ? end + 2 : NULL;
    } else {
        end = strrchr(text, ':');
        port = end != NULL ? end + 1 : NULL;
        if (end != NULL && memchr(text, ':', (size_t)(end - text)) != NULL) port = NULL;
    }
    if (port == NULL || end == begin || end - begin >= host_size) {
        return qpc_fail(err, QPC_ERR_INVALID,
                        "'%s' is not an address: want HOST:PORT or [IPV6]:PORT", text);
    }
    char *stop;
    errno = 0;
    long number = strtol(port, &stop, 10);
    if (stop == port || *stop != '\0' || errno != 0 || number < 0 || number > 65535) {
        return qpc_fail(err, QPC_ERR_INVALID, "'%s': the port is not within 0 to 65535", text);
    }
    memcpy(host, begin, (size_t)(end - begin));
    host[end - begin] = '\0';
    *ret_port = (int)number;
    return QPC_OK;
}

bool qpc_options_host_is_loopback(const char *host) {
    struct in_addr v4;
    struct in6_addr v6;
    if (strcasecmp(host, "localhost") == 0) return true;
    if (inet_pton(AF_INET, host, &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
    if (inet_pton(AF_INET6, host, &v6) == 1) return IN6_IS_ADDR_LOOPBACK(&v6);
    return false;
}

static qpc_status read_token(qpc_options *options, qpc_error *err) {
    int file = open(options->token_file, O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        return qpc_fail(err, QPC_ERR_INVALID, "--token: cannot read '%s': %s",
                        options->token_file, strerror(errno));
    }
    ssize_t size = read(file, options->token, sizeof options->token - 1);
    close(file);
    if (size < 0) size = 0;
    options->token[size] = '\0';
    // The token is the first line, without blanks around it.
    size_t length = strcspn(options->token, "\r\n");
    while (length > 0 && isspace((unsigned char)options->token[length - 1])) length--;
    options->token[length] = '\0';
    if (length < 8) {
        return qpc_fail(err, QPC_ERR_INVALID,
                        "--token: the first line of '%s' has %zu characters, want 8 to %d",
                        options->token_file, length, QPC_TOKEN_SIZE - 2);
    }
    if (size == QPC_TOKEN_SIZE - 1 && length == (size_t)size) {
        return qpc_fail(err, QPC_ERR_INVALID,
                        "--token: the first line of '%s' is longer than %d characters",
                        options->token_file, QPC_TOKEN_SIZE - 2);
    }
    options->token_size = (int32_t)length;
    return QPC_OK;
}

static qpc_status default_data_dir(qpc_options *options, char *const *environment,
                                   qpc_error *err) {
    const char *base = environment_get(environment, "XDG_DATA_HOME");
    const char *rest = "/qpcollide";
    if (base == NULL || base[0] != '/') {
        base = environment_get(environment, "HOME");
        rest = "/.local/share/qpcollide";
    }
    if (base == NULL || base[0] == '\0') {
        return qpc_fail(err, QPC_ERR_INVALID,
                        "neither XDG_DATA_HOME nor HOME is set: say --data DIR");
    }
    int size = snprintf(options->data_dir, sizeof options->data_dir, "%s%s", base, rest);
    if (size >= (int)sizeof options->data_dir) {
        return qpc_fail(err, QPC_ERR_INVALID, "the path of the data folder is too long");
    }
    return QPC_OK;
}

static qpc_status finish(qpc_options *options, char *const *environment, qpc_error *err) {
    if (options->listen_count == 0) {
        options->listen_default = true;
        strcpy(options->listen[0], "127.0.0.1:7447");
        strcpy(options->listen[1], "[::1]:7447");
        options->listen_count = 2;
    }
    if (options->workers == 0) {
        long cores = sysconf(_SC_NPROCESSORS_ONLN);
        options->workers = cores < 1 ? 1 : cores > 256 ? 256 : cores;
    }
    if (options->data_dir[0] == '\0') {
        qpc_status status = default_data_dir(options, environment, err);
        if (status != QPC_OK) return status;
    }
    if (options->token_file[0] != '\0') {
        qpc_status status = read_token(options, err);
        if (status != QPC_OK) return status;
    }
    for (int32_t i = 0; i < options->listen_count && options->token_size == 0; i++) {
        char host[QPC_ADDRESS_SIZE];
        int port;
        qpc_status status =
            qpc_options_split_address(options->listen[i], host, sizeof host, &port, err);
        if (status != QPC_OK) return status;
        if (!qpc_options_host_is_loopback(host)) {
            return qpc_fail(err, QPC_ERR_INVALID,
                            "--listen %s is beyond loopback: a token is required there "
                            "(--token FILE)",
                            options->listen[i]);
        }
    }
    return QPC_OK;
}

qpc_status qpc_options_parse(int argc, char *const *argv, char *const *environment,
                             qpc_options *ret, qpc_error *err) {
    qpc_options *options = qpc_alloc(sizeof *options);
    if (options == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "out of memory");
    set_defaults(options);
    const char *config = environment_get(environment, "QPC_CONFIG");
    if (config != NULL && strlen(config) < QPC_PATH_SIZE) strcpy(options->config_file, config);
    qpc_status status = read_flags(options, argc, argv, true, err);
    if (status == QPC_OK && !options->help && !options->version) {
        char path[QPC_PATH_SIZE];
        strcpy(path, options->config_file);
        if (path[0] != '\0') status = read_file(options, path, err);
        if (status == QPC_OK) status = read_environment(options, environment, err);
        if (status == QPC_OK) status = read_flags(options, argc, argv, false, err);
        if (status == QPC_OK) status = finish(options, environment, err);
        strcpy(options->config_file, path);
    }
    if (status == QPC_OK) *ret = *options;
    qpc_free(options);
    return status;
}

// ---- help ----

static void print_wrapped(FILE *out, const char *text) {
    enum { INDENT = 8, WIDTH = 92 };
    while (*text != '\0') {
        size_t size = strlen(text);
        if (size > WIDTH - INDENT) {
            size = WIDTH - INDENT;
            while (size > 0 && text[size] != ' ') size--;
            if (size == 0) size = strcspn(text, " ");
        }
        fprintf(out, "%*s%.*s\n", INDENT, "", (int)size, text);
        text += size;
        while (*text == ' ') text++;
    }
}

static void print_default(FILE *out, const option_spec *spec) {
    if (spec->kind == NUMBER && spec->standard != 0) {
        fprintf(out, "%8sDefault: %" PRId64 ".\n", "", spec->standard);
    }
    if (spec->kind == BYTES) {
        int64_t value = spec->standard;
        const char *unit = "";
        if (value % GIB == 0) {
            value /= GIB;
            unit = "G";
        } else if (value % MIB == 0) {
            value /= MIB;
            unit = "M";
        }
        fprintf(out, "%8sDefault: %" PRId64 "%s.\n", "", value, unit);
    }
    if (spec->kind == LEVEL) fprintf(out, "%8sDefault: info.\n", "");
}

char *qpc_options_help(void) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (out == NULL) return NULL;
    fputs("usage: qpcollided [option ...]\n\n"
          "Simulation server: holds worlds of cables and meshes, steps them on request over\n"
          "MessagePack-RPC, and records frames and diagnostics into SQLite files.\n\n"
          "Each option can be given as a flag (--max-depth 16), in the environment\n"
          "(QPC_MAX_DEPTH=16) and in a file (--config; max-depth = 16). A flag wins over the\n"
          "environment, the environment over the file. Bytes may end in K, M or G.\n\n",
          out);
    for (int i = 0; i < SPEC_COUNT; i++) {
        fprintf(out, "  --%s%s%s\n", specs[i].name, specs[i].argument != NULL ? " " : "",
                specs[i].argument != NULL ? specs[i].argument : "");
        print_wrapped(out, specs[i].doc);
        print_default(out, &specs[i]);
    }
    fputs("\nSIGTERM, SIGINT and SIGHUP drain: running steps finish, everything recorded is written, then\n"
          "the daemon ends with 0; a second signal ends it at once.\n"
          "Exit codes: 0 clean, 2 usage, 3 cannot listen (such as a port in use), 4 data folder,\n"
          "5 anything else.\n",
          out);
    fclose(out);
    // The stream's memory is libc's: give it a block that qpc_free() takes.
    char *copy = text != NULL ? qpc_strdup(text) : NULL;
    free(text);
    return copy;
}
