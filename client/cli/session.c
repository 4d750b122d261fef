/// Finding a server, or starting one for the duration of the command.
///
/// A private daemon listens on a Unix socket in a fresh folder of mode 0700, keeps its data where a
/// daemon of this user always does ($XDG_DATA_HOME/qpcollide) unless --data says otherwise, and
/// ends with the command: by SIGTERM, which makes it write out everything; and should the command
/// be killed, the kernel sends that signal for it.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "client/cli/cli.h"
#include "client/libqpc/address.h"

enum { START_MS = 15000, STOP_MS = 60000, PROBE_MS = 2000 };

static bool interrupted(void *user) {
    (void)user;
    return cli_interrupted();
}

static int32_t timeout_ms(const cli *c) {
    double s = c->timeout != NULL ? strtod(c->timeout, NULL) : 30;
    if (!(s > 0)) return -1;
    return s > 2e6 ? 2000000000 : (int32_t)(1000 * s);
}

static qpc_status read_token(const cli *c, char *out, size_t size, qpc_error *err) {
    FILE *file = fopen(c->token_file, "re");
    if (file == NULL)
        return qpc_fail(err, QPC_ERR_IO, "%s: cannot open the token: %s", c->token_file,
                        strerror(errno));
    char *line = fgets(out, (int)size, file);
    fclose(file);
    if (line == NULL) return qpc_fail(err, QPC_ERR_INVALID, "%s: no token in it", c->token_file);
    out[strcspn(out, "\r\n")] = '\0';
    return QPC_OK;
}

static qpc_status connect_to(cli *c, const char *address, int32_t connect_ms, qpc_error *err) {
    qpc_connect_options options = {.timeout_ms = connect_ms, .interrupted = interrupted};
    char token[1024];
    qpc_status status = QPC_OK;
    if (c->token_file != NULL) status = read_token(c, token, sizeof token, err);
    if (status == QPC_OK) status = qpc_client_connect(address, &options, &c->client, err);
    if (status != QPC_OK) return status;
    snprintf(c->address, sizeof c->address, "%s", address);
    status = qpc_client_hello(c->client, "qpc", c->token_file != NULL ? token : NULL, "control",
                              &c->info, err);
    if (status == QPC_ERR_DEADLINE)
        qpc_fail(err, status, "%s answers, but not as qpcollided does", address);
    if (status != QPC_OK) return status;
    qpc_client_set_timeout(c->client, timeout_ms(c));
    return QPC_OK;
}

qpc_status cli_reconnect(cli *c, qpc_error *err) {
    char address[256];
    snprintf(address, sizeof address, "%s", c->address);
    qpc_client_close(c->client);
    c->client = NULL;
    return connect_to(c, address, timeout_ms(c), err);
}

// ---- the private daemon ----

/// "qpcollided" beside this program, in the build tree's server folder, or the name alone for PATH.
static void find_daemon(char *out, size_t size) {
    const char *given = getenv("QPCOLLIDED");
    if (given != NULL && given[0] != '\0') {
        snprintf(out, size, "%s", given);
        return;
    }
    static const char *const beside[] = {"qpcollided", "../../server/qpcollided",
                                         "../libexec/qpcollided"};
    char self[3072];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n > 0) {
        self[n] = '\0';
        char *slash = strrchr(self, '/');
        if (slash != NULL) *slash = '\0';
        for (size_t i = 0; i < sizeof beside / sizeof *beside; i++) {
            snprintf(out, size, "%s/%s", self, beside[i]);
            if (access(out, X_OK) == 0) return;
        }
    }
    snprintf(out, size, "qpcollided");
}

/// What the daemon said before it gave up, for the error message: the last lines of its log.
static void read_log(const char *path, char *out, size_t size) {
    FILE *file = fopen(path, "re");
    out[0] = '\0';
    if (file == NULL) return;
    if (fseek(file, -(long)(size - 1), SEEK_END) != 0) rewind(file);
    size_t n = fread(out, 1, size - 1, file);
    out[n] = '\0';
    while (n > 0 && out[n - 1] == '\n') out[--n] = '\0';
    fclose(file);
}

static void remove_folder(cli *c) {
    static const char *const files[] = {"socket", "ports", "log"};
    char path[160];
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(path, sizeof path, "%s/%s", c->daemon_dir, files[i]);
        unlink(path);
    }
    rmdir(c->daemon_dir);
    c->daemon_dir[0] = '\0';
}

/// In the child: become the daemon.
_Noreturn static void become_daemon(const char *program, const char *folder, const char *data,
                                    pid_t parent) {
    char path_socket[160], path_ports[160], path_log[160];
    snprintf(path_socket, sizeof path_socket, "%s/socket", folder);
    snprintf(path_ports, sizeof path_ports, "%s/ports", folder);
    snprintf(path_log, sizeof path_log, "%s/log", folder);
    // A Ctrl-C at the terminal is for qpc, which then stops the daemon in order.
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) _exit(127);
    int log = open(path_log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (log < 0 || nothing < 0 || dup2(nothing, 0) < 0 || dup2(log, 1) < 0 || dup2(log, 2) < 0)
        _exit(127);
    const char *arguments[16] = {
        program,       "--unix",        path_socket, "--listen",
        "127.0.0.1:0", "--port-file",   path_ports,  "--log-level",
        "warn",        "--idle-exit-s", "600",       data != NULL ? "--data" : NULL,
        data};
    // execvp takes pointers that are not const, and changes nothing.
    union {
        const char **in;
        char **out;
    } list = {.in = arguments};
    execvp(program, list.out);
    dprintf(2, "cannot start %s: %s\n", program, strerror(errno));
    _exit(127);
}

static void sleep_ms(int ms) {
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
    nanosleep(&t, NULL);
}

static cli_exit start_private(cli *c) {
    qpc_error err = {0};
    char program[4096], address[192], log_path[160], log[400];
    const char *base = getenv("XDG_RUNTIME_DIR");
    if (base == NULL || base[0] != '/' || strlen(base) > 60 || access(base, W_OK) != 0)
        base = "/tmp";
    snprintf(c->daemon_dir, sizeof c->daemon_dir, "%s/qpcollide-XXXXXX", base);
    if (mkdtemp(c->daemon_dir) == NULL) {
        qpc_fail(&err, QPC_ERR_IO, "cannot make a folder for a private daemon: %s",
                 strerror(errno));
        c->daemon_dir[0] = '\0';
        return cli_fail(c, CLI_NO_CONNECTION, &err, NULL);
    }
    find_daemon(program, sizeof program);
    snprintf(address, sizeof address, "unix:%s/socket", c->daemon_dir);
    snprintf(log_path, sizeof log_path, "%s/log", c->daemon_dir);
    fflush(NULL);
    pid_t parent = getpid();
    c->daemon = fork();
    if (c->daemon == 0) become_daemon(program, c->daemon_dir, c->data_dir, parent);
    if (c->daemon < 0) {
        c->daemon = 0;
        remove_folder(c);
        qpc_fail(&err, QPC_ERR_IO, "cannot start a private daemon: %s", strerror(errno));
        return cli_fail(c, CLI_NO_CONNECTION, &err, NULL);
    }
    // Until it listens, or has ended.
    int64_t deadline = qpc_now_ms() + START_MS;
    for (;;) {
        int state;
        if (waitpid(c->daemon, &state, WNOHANG) == c->daemon) {
            int code = WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
            read_log(log_path, log, sizeof log);
            remove_folder(c);
            c->daemon = 0;
            qpc_fail(&err, QPC_ERR_IO, "the private daemon %s did not start (exit code %d)%s%s%s",
                     program, code, log[0] ? ":\n" : "", log,
                     code == 127 ? "\n(set QPCOLLIDED to the path of qpcollided, or use --server)"
                                 : "");
            return cli_fail(c, code == 4 ? CLI_BAD_FILE : CLI_NO_CONNECTION, &err, NULL);
        }
        qpc_status status = connect_to(c, address, PROBE_MS, &err);
        if (status == QPC_OK) return CLI_OK;
        if (c->client != NULL) {
            qpc_client_close(c->client);
            c->client = NULL;
        }
        if (cli_interrupted()) {
            qpc_fail(&err, QPC_ERR_CANCELLED, "interrupted");
            return cli_fail(c, CLI_INTERRUPTED, &err, NULL);
        }
        if (qpc_now_ms() > deadline) return cli_fail(c, CLI_NO_CONNECTION, &err, NULL);
        sleep_ms(10);
    }
}

cli_exit cli_connect(cli *c, bool private_allowed) {
    qpc_error err = {0};
    if (c->timeout != NULL) {
        char *end;
        strtod(c->timeout, &end);
        if (end == c->timeout || *end != '\0') {
            qpc_fail(&err, QPC_ERR_INVALID, "--timeout wants a number of seconds, not \"%.60s\"",
                     c->timeout);
            return cli_fail(c, CLI_USAGE, &err, NULL);
        }
    }
    const char *server = c->server;
    if (server != NULL && c->data_dir != NULL) {
        qpc_fail(&err, QPC_ERR_INVALID,
                 "--data is for a private daemon; it makes no sense with "
                 "--server, whose data are its own");
        return cli_fail(c, CLI_USAGE, &err, NULL);
    }
    if (server == NULL && c->data_dir == NULL) server = getenv("QPC_SERVER");
    if (server != NULL && server[0] != '\0') {
        qpc_address address;
        if (qpc_address_parse(server, &address, &err) != QPC_OK)
            return cli_fail(c, CLI_USAGE, &err, NULL);
        qpc_status status = connect_to(c, server, timeout_ms(c), &err);
        return status == QPC_OK ? CLI_OK : cli_fail_call(c, &err);
    }
    if (c->data_dir == NULL) {
        qpc_status status = connect_to(c, QPC_DEFAULT_ADDRESS, PROBE_MS, &err);
        if (status == QPC_OK) return CLI_OK;
        if (c->client != NULL) return cli_fail_call(c, &err); // someone answered, not as wanted
        if (cli_interrupted()) return cli_fail_call(c, &err);
    }
    if (private_allowed) return start_private(c);
    qpc_error why = err;
    qpc_fail(&err, why.status, "%s\n(start qpcollided, or say --server ADDR)", why.message);
    return cli_fail(c, CLI_NO_CONNECTION, &err, NULL);
}

void cli_disconnect(cli *c) {
    qpc_client_close(c->client);
    c->client = NULL;
    if (c->daemon <= 0) return;
    kill(c->daemon, SIGTERM);
    int64_t deadline = qpc_now_ms() + STOP_MS;
    int state = 0;
    while (waitpid(c->daemon, &state, WNOHANG) == 0) {
        if (qpc_now_ms() > deadline) {
            fprintf(stderr, "qpc: the private daemon (process %d) does not end; leaving it\n",
                    (int)c->daemon);
            break;
        }
        sleep_ms(5);
    }
    if (WIFSIGNALED(state) || (WIFEXITED(state) && WEXITSTATUS(state) != 0))
        fprintf(stderr, "qpc: the private daemon ended with %s %d\n",
                WIFSIGNALED(state) ? "signal" : "exit code",
                WIFSIGNALED(state) ? WTERMSIG(state) : WEXITSTATUS(state));
    c->daemon = 0;
    remove_folder(c);
}
