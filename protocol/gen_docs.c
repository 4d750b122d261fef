/// Prints docs/protocol.md: the prose of protocol/protocol.md.in, with the lines @ERRORS@, @LIMITS@
/// and
/// @METHODS@ replaced by what the tables say.
///
///     qpc_protocol_docs protocol/protocol.md.in > docs/protocol.md
///     qpc_protocol_docs protocol/protocol.md.in --check docs/protocol.md
///
/// The second exits 1 and names the first line that differs. One thread.
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

// ---- from the tables ----

static void print_errors(void) {
#define QPC_STATUS_DOC(name, code, text) putf("| %d | %s | %s |\n", code, #name, text);
    QPC_STATUS_LIST(QPC_STATUS_DOC)
#undef QPC_STATUS_DOC
}

static void print_limits(void) {
    qpc_scan_limits limits = qpc_scan_limits_default();
    putf("| bytes of one message | %zu (64 MiB) |\n", limits.max_message);
    putf("| containers inside containers | %d |\n", (int)limits.max_depth);
    putf("| elements of all containers of one message (an array counts as one bin) | %zu |\n",
         limits.max_items);
    putf("| bytes of one str | %zu |\n", limits.max_key);
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

static void print_methods(void) {
    for (int i = 0; i < QPC_METHOD_COUNT; i++) print_method(qpc_method_get((qpc_method)i));
    page.size--; // one empty line less
}

static void print_notice(void) {
    put("<!-- Made by qpc_protocol_docs from protocol/methods.c and protocol/protocol.md.in: edit "
        "those. "
        "-->\n");
}

static const struct {
    const char *line;
    void (*print)(void);
} parts[] = {
    {"@NOTICE@\n", print_notice},
    {"@ERRORS@\n", print_errors},
    {"@LIMITS@\n", print_limits},
    {"@METHODS@\n", print_methods},
};
enum { PART_COUNT = sizeof parts / sizeof parts[0] };

/// Each part must be there once, or the page would silently lack a table.
static bool print_page(const char *path) {
    char line[1024];
    int seen[PART_COUNT] = {0};
    FILE *f = fopen(path, "rb");
    if (f == NULL) {
        fprintf(stderr, "%s cannot be read\n", path);
        return false;
    }
    while (fgets(line, sizeof line, f) != NULL) {
        bool prose = true;
        for (int i = 0; i < PART_COUNT; i++) {
            if (strcmp(line, parts[i].line) != 0) continue;
            parts[i].print();
            seen[i]++;
            prose = false;
        }
        if (prose) put(line);
    }
    fclose(f);
    for (int i = 0; i < PART_COUNT; i++) {
        if (seen[i] == 1) continue;
        fprintf(stderr, "%s has %d lines %s", path, seen[i], parts[i].line);
        return false;
    }
    return true;
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
    fprintf(stderr, "%s differs from the tables at line %d; make it anew by qpc_protocol_docs\n",
            path, line);
    return 1;
}

int main(int argc, char **argv) {
    int code = 2;
    bool check = argc == 4 && strcmp(argv[2], "--check") == 0;
    if (argc != 2 && !check) {
        fprintf(stderr,
                "usage: qpc_protocol_docs protocol/protocol.md.in [--check docs/protocol.md]\n");
    } else if (!print_page(argv[1])) {
        code = 1;
    } else if (check) {
        code = check_file(argv[3]);
    } else {
        bool written = fwrite(page.data, 1, page.size, stdout) == page.size && fflush(stdout) == 0;
        code = written ? 0 : 1;
    }
    qpc_buffer_fini(&page);
    return code;
}
