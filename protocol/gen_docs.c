/// Prints docs/protocol.md from the method table:
///
///     qpc_protocol_docs > docs/protocol.md
///     qpc_protocol_docs --check docs/protocol.md     exit 1, naming the first line that differs
///
/// The prose around the table is here too, so that the page has one source. No threads, no state.
#include "base/mem.h"
#include "protocol/codec.h"
#include "protocol/methods.h"
#include "protocol/scan.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static qpc_buffer page;

static void put_bytes(const char *bytes, size_t size) {
    if (qpc_buffer_append(&page, bytes, size) != QPC_OK) {
        fprintf(stderr, "qpc_protocol_docs: out of memory\n");
        exit(1);
    }
}

static void put(const char *text) {
    put_bytes(text, strlen(text));
}

__attribute__((format(printf, 1, 2))) static void putf(const char *format, ...) {
    char line[2048];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (n < 0 || n >= (int)sizeof line) {
        fprintf(stderr, "qpc_protocol_docs: a line is too long\n");
        exit(1);
    }
    put_bytes(line, (size_t)n);
}

// ---- prose ----

static const char introduction[] =
    "# The protocol of qpcollided\n"
    "\n"
    "<!-- Made by protocol/gen_docs.c from the method table in protocol/methods.c. Do not edit: "
    "run\n"
    "     qpc_protocol_docs > docs/protocol.md. -->\n"
    "\n"
    "qpcollided speaks [MessagePack-RPC](https://github.com/msgpack-rpc/msgpack-rpc/blob/master/"
    "spec.md)\n"
    "over TCP (default 127.0.0.1:7447 and [::1]:7447) and Unix sockets, without any framing "
    "around\n"
    "the messages. Any MessagePack-RPC client can talk to it; two examples are at the end.\n"
    "\n"
    "## Messages\n"
    "\n"
    "```\n"
    "request       [0, id, method, params]     client to server\n"
    "response      [1, id, error, result]      server to client: one for each request\n"
    "notification  [2, method, params]         either way, never answered\n"
    "```\n"
    "\n"
    "- **params** is a list that holds one map, `[{\"world\": 1, \"n\": 10}]`, or an empty list "
    "for\n"
    "  none. A param that is nil counts as left out. `[[]]` counts as `[{}]`, since some "
    "languages\n"
    "  cannot tell an empty map from an empty list. Unknown params are errors that name the "
    "nearest\n"
    "  known one.\n"
    "- **id** is an integer from 0 to 4294967295, in any width of encoding. The client chooses it; "
    "it\n"
    "  should not be in use by another request of the same connection that is still unanswered.\n"
    "- **Order**: requests about one world are executed in the order they arrive on a connection.\n"
    "  Requests about different worlds run in parallel, so responses may come in another order "
    "than\n"
    "  their requests: match them by id. Many requests may be sent without waiting (pipelining).\n"
    "- **Text** is UTF-8. Map keys are text (str, or bin with the same bytes) and must differ.\n"
    "  Extension types are not used. Integers keep all 64 bits, reals are sent as float64.\n"
    "- **Units** are SI throughout: m, kg, s, N, rad.\n"
    "- **Notifications** from a client are executed for the methods marked below and ignored\n"
    "  otherwise, also when something is wrong with them.\n"
    "- A **half-closed** connection (the client ended its sending side) gets the replies that are\n"
    "  due, then it is closed.\n"
    "\n"
    "## Errors\n"
    "\n"
    "The error of a response is nil or a map:\n"
    "\n"
    "```\n"
    "{code: int, name: str, message: str, data: map or nil}\n"
    "```\n"
    "\n"
    "`message` is one sentence for a person: what was wrong, where, and what would be right. "
    "`data` is\n"
    "`{where: path}` where a place is known (such as `control.forces[0].body`), or what the "
    "method\n"
    "says; otherwise nil. Codes and names are stable:\n"
    "\n"
    "| code | name | meaning |\n"
    "| --- | --- | --- |\n";

static const char after_errors[] =
    "\n"
    "Every method may answer INVALID, UNAUTHORISED, MEMORY and INTERNAL; the others are listed "
    "with\n"
    "each. A method that does not exist is UNKNOWN_METHOD.\n"
    "\n"
    "**Malformed input.** A message that is MessagePack-RPC but wrong (params of the wrong type, "
    "an\n"
    "unknown method, a bad array) gets an error response with its id, and the connection goes on.\n"
    "Bytes that are not MessagePack, or are beyond a limit, cannot be skipped: the server answers\n"
    "once, by an error response if an id could be read and otherwise by the notification\n"
    "`[2, \"error\", [{code, name, message, data}]]`, and closes the connection. Other "
    "connections\n"
    "notice nothing.\n";

static const char arrays[] =
    "\n"
    "## Arrays\n"
    "\n"
    "Numbers in bulk travel as in the msgpack-numpy convention: a map of five entries whose data "
    "are\n"
    "the elements, dense, row after row, little-endian.\n"
    "\n"
    "```\n"
    "{nd: true, type: \"<f8\", kind: \"\", shape: [rows, columns], data: bin}\n"
    "```\n"
    "\n"
    "- `type` is `<f8`, `<f4`, `<i4`, `<i8`, `<u8` or `|u1`. Object arrays (`O`), structured (`V`) "
    "and\n"
    "  big-endian ones are refused.\n"
    "- `shape` has 0 to 4 sizes, and their product times the element size is the size of `data`.\n"
    "- Keys may be str or bin in what a client sends, and `data` may be str for clients that have "
    "no\n"
    "  bin. The server sends keys as str, or as bin after `hello` with `array_keys: \"bin\"`, "
    "which is\n"
    "  what Python's msgpack_numpy decodes by itself.\n"
    "- A numpy scalar, `{nd: false, type, data}`, is read as the number that it is.\n"
    "- Where a method takes an array, nested lists of numbers do as well.\n"
    "\n"
    "Node arrays go over all nodes of the bodies that move (cable, kinematic), in body order; "
    "`bodies`\n"
    "gives the rows of each. Static bodies have no rows: their mesh and pose are in the scene.\n";

static const char after_limits[] =
    "\n"
    "`hello` tells the values of the server at hand. They are checked before memory is taken: a "
    "header\n"
    "that claims more than its message may hold ends the connection at once. A client that does "
    "not\n"
    "read its replies is not read from, once a bounded number of bytes waits for it.\n";

static const char retry[] =
    "\n"
    "## Steps, and trying again\n"
    "\n"
    "`world.step` advances n steps and answers once. Cancel, deadline and drain act between two "
    "steps,\n"
    "so that a reply always stands for whole steps: `reached` is the number of the last one, "
    "`hash` the\n"
    "state after it, `status` why the batch ended. A failure at step k < n is a success as far as "
    "it\n"
    "came, with the error inside.\n"
    "\n"
    "A client that lost its connection does not know whether its last request was executed. Two "
    "params\n"
    "make the repetition safe, alone or together:\n"
    "\n"
    "- `expect_step: s` steps only if the last finished step is s. When the lost request was "
    "executed,\n"
    "  the repeated one is answered with STATE and `data: {step}`: go on from there.\n"
    "- `key: text` names the request. The reply is kept with the world (the last 256 of them), and "
    "the\n"
    "  same key again gets the same reply without stepping, also on another connection and while "
    "the\n"
    "  first is still running (then the answer comes when it ends). The other params of the "
    "repeated\n"
    "  request are not looked at. With both, the key decides first.\n"
    "\n"
    "The state hash is 64 bits over everything that later bits depend on, chained from step to "
    "step:\n"
    "the same scene and controls give the same chain on any number of workers, with or without\n"
    "recording, in process or over the wire.\n"
    "\n"
    "## Subscriptions, and slow readers\n"
    "\n"
    "After `world.subscribe` the server sends, for every so many steps,\n"
    "\n"
    "```\n"
    "[2, \"frame\", [{subscription, world, step, time, hash, dropped, positions, ...}]]\n"
    "```\n"
    "\n"
    "with the fields asked for. A frame waits in the queue of its subscription while the "
    "connection\n"
    "cannot take it or the credit is used up. A queue never holds more than `max_queue` frames nor "
    "more\n"
    "than the server's bytes for each reader; beyond that the policy decides:\n"
    "\n"
    "| policy | when the queue is full |\n"
    "| --- | --- |\n"
    "| `latest` | only the newest frame waits; older ones are dropped (for displays) |\n"
    "| `drop-oldest` | the oldest waiting frame is dropped |\n"
    "| `drop-newest` | the new frame is dropped |\n"
    "| `close` | the subscription ends: the notification `error` says so, code LIMIT |\n"
    "\n"
    "`dropped` in a frame counts those lost since the frame sent before it, so a reader always "
    "knows. A\n"
    "slow reader never delays the simulation or others. With `credit: n` the server sends n frames "
    "and\n"
    "then waits for `world.credit`, by request or by notification. A subscription ends with\n"
    "`world.unsubscribe`, with its world, or with its connection.\n"
    "\n"
    "## Methods\n"
    "\n";

static const char examples[] =
    "\n"
    "## Examples\n"
    "\n"
    "Python, with nothing but Debian's python3-msgpack and python3-numpy:\n"
    "\n"
    "```python\n"
    "import socket\n"
    "\n"
    "import msgpack\n"
    "import numpy as np\n"
    "\n"
    "\n"
    "def pack_array(o):\n"
    "    if isinstance(o, np.ndarray):\n"
    "        return {\"nd\": True, \"type\": o.dtype.str, \"kind\": \"\", \"shape\": o.shape,\n"
    "                \"data\": o.tobytes()}\n"
    "    raise TypeError(type(o))\n"
    "\n"
    "\n"
    "def unpack_array(m):\n"
    "    if m.get(\"nd\") is True:\n"
    "        return np.frombuffer(m[\"data\"], m[\"type\"]).reshape(m[\"shape\"])\n"
    "    return m\n"
    "\n"
    "\n"
    "connection = socket.create_connection((\"127.0.0.1\", 7447))\n"
    "unpacker = msgpack.Unpacker(object_hook=unpack_array)\n"
    "last_id = 0\n"
    "\n"
    "\n"
    "def call(method, **params):\n"
    "    global last_id\n"
    "    last_id += 1\n"
    "    connection.sendall(msgpack.packb([0, last_id, method, [params]], default=pack_array))\n"
    "    while True:\n"
    "        for message in unpacker:\n"
    "            if message[0] == 1 and message[1] == last_id:\n"
    "                if message[2] is not None:\n"
    "                    raise RuntimeError(message[2][\"message\"])\n"
    "                return message[3]\n"
    "        data = connection.recv(1 << 16)\n"
    "        if not data:\n"
    "            raise ConnectionError(\"the server closed the connection\")\n"
    "        unpacker.feed(data)\n"
    "\n"
    "\n"
    "scene = {\n"
    "    \"dt\": 0.005,\n"
    "    \"bodies\": [{\"kind\": \"cable\", \"name\": \"rope\", \"radius\": 0.01,\n"
    "                \"nodes\": np.stack([np.linspace(0, 1, 20), np.zeros(20), np.zeros(20)], 1),\n"
    "                \"mass\": 0.05, \"stiffness\": 1e4}],\n"
    "    \"constraints\": [{\"kind\": \"fixed\", \"body\": \"rope\", \"nodes\": [0]}],\n"
    "}\n"
    "world = call(\"world.create\", scene=scene)[\"world\"]\n"
    "reply = call(\"world.step\", world=world, n=200, expect_step=0, positions=True)\n"
    "print(reply[\"reached\"], reply[\"positions\"][-1])\n"
    "call(\"world.destroy\", world=world)\n"
    "```\n"
    "\n"
    "Neovim, whose own RPC is MessagePack-RPC, in Lua (`nvim --headless -u NONE -l` or "
    "`:luafile`):\n"
    "\n"
    "```lua\n"
    "local channel = vim.fn.sockconnect('tcp', '127.0.0.1:7447', { rpc = true })\n"
    "local hello = vim.rpcrequest(channel, 'hello', { client = 'neovim' })\n"
    "print(hello.server, hello.version)\n"
    "for _, world in ipairs(vim.rpcrequest(channel, 'world.list').worlds) do\n"
    "  local reply = vim.rpcrequest(channel, 'world.step', { world = world.world, n = 10 })\n"
    "  print(world.name, reply.reached, reply.status)\n"
    "end\n"
    "vim.fn.chanclose(channel)\n"
    "```\n"
    "\n"
    "and in Vim script:\n"
    "\n"
    "```vim\n"
    "let channel = sockconnect('tcp', '127.0.0.1:7447', {'rpc': v:true})\n"
    "echo rpcrequest(channel, 'server.stats').uptime_s\n"
    "call rpcnotify(channel, 'world.credit', {'subscription': 1, 'add': 10})\n"
    "```\n";

// ---- from the tables ----

static void print_errors(void) {
#define QPC_STATUS_DOC(name, code, text) putf("| %d | %s | %s |\n", code, #name, text);
    QPC_STATUS_LIST(QPC_STATUS_DOC)
#undef QPC_STATUS_DOC
}

static void print_limits(void) {
    qpc_scan_limits limits = qpc_scan_limits_default();
    put("\n## Limits\n\n| what | default |\n| --- | --- |\n");
    putf("| bytes of one message | %zu (64 MiB) |\n", limits.max_message);
    putf("| containers inside containers | %d |\n", (int)limits.max_depth);
    putf("| elements of all containers of one message (an array counts as one bin) | %zu |\n",
         limits.max_items);
    putf("| bytes of one str | %zu |\n", limits.max_key);
    put(after_limits);
}

/// A number that stands in the table: whole ones without a point.
static void print_number(double v) {
    if (v >= 1e15)
        put("2^53");
    else
        putf("%.15g", v);
}

static void print_type(const qpc_field_spec *f) {
    put(qpc_field_type_name(f->type));
    if (f->type == QPC_FIELD_STR && f->one_of != NULL) {
        for (const char *word = f->one_of; *word != '\0';) {
            int length = (int)strcspn(word, "|");
            putf("%s `%.*s`", word == f->one_of ? ":" : ",", length, word);
            word += length + (word[length] == '|' ? 1 : 0);
        }
    } else if (f->type == QPC_FIELD_STR && f->high > 0) {
        putf(" of at most %.0f bytes", f->high);
    } else if (f->low != 0 || f->high != 0) {
        put(", ");
        print_number(f->low);
        put(" to ");
        print_number(f->high);
    }
}

static void print_params(const qpc_field_spec *fields, int32_t count) {
    if (count == 0) {
        put("No params.\n\n");
        return;
    }
    put("| param | type | needed | meaning |\n| --- | --- | --- | --- |\n");
    for (int32_t i = 0; i < count; i++) {
        putf("| `%s` | ", fields[i].name);
        print_type(&fields[i]);
        putf(" | %s | %s |\n", fields[i].required ? "yes" : "", fields[i].doc);
    }
    put("\n");
}

static void print_results(const qpc_field_spec *fields, int32_t count) {
    put("| result | type | always there | meaning |\n| --- | --- | --- | --- |\n");
    for (int32_t i = 0; i < count; i++) {
        putf("| `%s` | ", fields[i].name);
        print_type(&fields[i]);
        putf(" | %s | %s |\n", fields[i].required ? "yes" : "", fields[i].doc);
    }
    put("\n");
}

static void print_method(const qpc_method_spec *m) {
    putf("### %s\n\n%s", m->name, m->doc);
    if (m->bulk) put(" Bulk: best on a connection of its own.");
    put("\n\n");
    print_params(m->params, m->param_count);
    print_results(m->results, m->result_count);
    if (m->errors == 0) return;
    const char *between = "Errors: ";
#define QPC_STATUS_DOC(name, code, text)                                                           \
    if ((m->errors >> (code)&1U) != 0) {                                                           \
        putf("%s" #name, between);                                                                 \
        between = ", ";                                                                            \
    }
    QPC_STATUS_LIST(QPC_STATUS_DOC)
#undef QPC_STATUS_DOC
    put(".\n\n");
}

static void print_page(void) {
    put(introduction);
    print_errors();
    put(after_errors);
    put(arrays);
    print_limits();
    put(retry);
    for (int i = 0; i < QPC_METHOD_COUNT; i++) print_method(qpc_method_get((qpc_method)i));
    page.size--; // one empty line less
    put(examples);
}

static int check_file(const char *path) {
    FILE *f = fopen(path, "rb");
    if (f == NULL) {
        fprintf(stderr, "%s cannot be read\n", path);
        return 1;
    }
    int line = 1, c;
    size_t at = 0;
    while ((c = getc(f)) != EOF && at < page.size && c == page.data[at]) {
        at++;
        if (c == '\n') line++;
    }
    fclose(f);
    if (c == EOF && at == page.size) return 0;
    fprintf(
        stderr,
        "%s differs from the method table at line %d; run qpc_protocol_docs > docs/protocol.md\n",
        path, line);
    return 1;
}

int main(int argc, char **argv) {
    int code = 0;
    print_page();
    if (argc == 3 && strcmp(argv[1], "--check") == 0) {
        code = check_file(argv[2]);
    } else if (argc == 1) {
        bool written = fwrite(page.data, 1, page.size, stdout) == page.size && fflush(stdout) == 0;
        code = written ? 0 : 1;
    } else {
        fprintf(stderr, "usage: qpc_protocol_docs [--check docs/protocol.md]\n");
        code = 2;
    }
    qpc_buffer_fini(&page);
    return code;
}
