/// Options of a command: parsing by its table, and the help that is made from the same table.
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/nearest.h"
#include "client/cli/cli.h"

enum { OPTION_MAX = 32 };

static void print_wrapped(const char *text, int indent, int column) {
    const int width = 96;
    while (*text != '\0') {
        size_t word = strcspn(text, " \n");
        if (column > indent && column + (int)word > width) {
            printf("\n%*s", indent, "");
            column = indent;
        }
        printf("%.*s", (int)word, text);
        column += (int)word;
        text += word;
        if (*text == '\n') {
            printf("\n%*s", indent, "");
            column = indent;
            text++;
        } else if (*text == ' ') {
            putchar(' ');
            column++;
            text++;
        }
    }
    putchar('\n');
}

static void print_help(const cli_command *command, const cli_option *options) {
    printf("usage: qpc %s%s%s [options]\n\n", command->name, command->arguments[0] ? " " : "",
           command->arguments);
    print_wrapped(command->doc, 0, 0);
    if (command->details != NULL) {
        putchar('\n');
        print_wrapped(command->details, 0, 0);
    }
    printf("\noptions:\n");
    for (const cli_option *o = options; o->name != NULL; o++) {
        int used = printf("  %s%s%s%s", o->name[1] == '\0' ? "-" : "--", o->name,
                          o->argument ? " " : "", o->argument ? o->argument : "");
        if (used > 22) {
            putchar('\n');
            used = 0;
        }
        printf("%*s", 24 - used, "");
        print_wrapped(o->doc, 24, 24);
    }
    printf("  --help                print this text\n");
}

static cli_exit usage(const cli_command *command, const char *text) {
    fprintf(stderr, "qpc %s: %s\n(qpc %s --help says what it takes)\n", command->name, text,
            command->name);
    return CLI_USAGE;
}

static bool set_option(const cli_option *o, const char *text, char *why, size_t size) {
    char *end;
    errno = 0;
    switch (o->type) {
    case CLI_FLAG:
        *(bool *)o->target = true;
        return true;
    case CLI_TEXT:
        *(const char **)o->target = text;
        return true;
    case CLI_COUNT: {
        long long value = strtoll(text, &end, 10);
        if (end == text || *end != '\0' || errno != 0 || value < 0) {
            snprintf(why, size, "--%s wants a whole number from 0, not \"%.60s\"", o->name, text);
            return false;
        }
        *(int64_t *)o->target = value;
        return true;
    }
    case CLI_NUMBER: {
        double value = strtod(text, &end);
        if (end == text || *end != '\0' || !isfinite(value)) {
            snprintf(why, size, "--%s wants a number, not \"%.60s\"", o->name, text);
            return false;
        }
        *(double *)o->target = value;
        return true;
    }
    }
    return false;
}

static const cli_option *find_option(const cli_option *options, const char *name, size_t size) {
    for (const cli_option *o = options; o->name != NULL; o++)
        if (strlen(o->name) == size && memcmp(o->name, name, size) == 0) return o;
    return NULL;
}

static void unknown_option(const cli_option *options, const char *argument, const char *name,
                           size_t size, char *why, size_t why_size) {
    const char *names[OPTION_MAX + 1] = {NULL};
    int count = 0;
    for (const cli_option *o = options; o->name != NULL && count < OPTION_MAX; o++)
        names[count++] = o->name;
    const char *near = qpc_nearest(name, size, names);
    snprintf(why, why_size, "unknown option %.60s%s%s%s", argument, near ? "; did you mean --" : "",
             near ? near : "", near ? "?" : "");
}

bool cli_parse(const cli_command *command, const cli_option *options, int argc, char **argv,
               const char **positional, int *ret_count, cli_exit *ret) {
    char why[200];
    int count = 0;
    bool only_positional = false;
    for (int i = 1; i < argc; i++) {
        const char *argument = argv[i];
        if (only_positional || argument[0] != '-' || argument[1] == '\0') {
            if (count == command->most) {
                snprintf(why, sizeof why, "unexpected argument \"%.60s\"", argument);
                *ret = usage(command, why);
                return false;
            }
            positional[count++] = argument;
            continue;
        }
        if (strcmp(argument, "--") == 0) {
            only_positional = true;
            continue;
        }
        if (strcmp(argument, "--help") == 0 || strcmp(argument, "-h") == 0) {
            print_help(command, options);
            *ret = CLI_OK;
            return false;
        }
        const char *name = argument + (argument[1] == '-' ? 2 : 1);
        size_t size = strcspn(name, "=");
        const cli_option *o = find_option(options, name, size);
        if (o == NULL || (o->name[1] == '\0') != (argument[1] != '-')) {
            unknown_option(options, argument, name, size, why, sizeof why);
            *ret = usage(command, why);
            return false;
        }
        const char *value = name[size] == '=' ? name + size + 1 : NULL;
        if (o->type == CLI_FLAG && value != NULL) {
            snprintf(why, sizeof why, "--%s takes no value", o->name);
            *ret = usage(command, why);
            return false;
        }
        if (o->type != CLI_FLAG && value == NULL) {
            if (i + 1 == argc) {
                snprintf(why, sizeof why, "%.60s wants a value", argument);
                *ret = usage(command, why);
                return false;
            }
            value = argv[++i];
        }
        if (!set_option(o, value, why, sizeof why)) {
            *ret = usage(command, why);
            return false;
        }
    }
    if (count < command->least) {
        snprintf(why, sizeof why, "wanted: %s", command->arguments);
        *ret = usage(command, why);
        return false;
    }
    *ret_count = count;
    return true;
}
