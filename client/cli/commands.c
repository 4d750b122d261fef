/// `qpc mesh`, `qpc upload`, `qpc worlds`, `qpc stats`.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "client/cli/cli.h"
#include "client/meshio/generate.h"
#include "client/meshio/meshfile.h"
#include "client/meshio/volume.h"

// ---- mesh ----

typedef struct mesh_output {
    const char *path, *format;
} mesh_output;

/// Whether the file is to hold QPM1 bytes; false and a message if the format is unknown.
static bool choose_format(const mesh_output *o, bool *ret_qpm, qpc_error *err) {
    const char *format = o->format;
    if (format == NULL) {
        const char *dot = strrchr(o->path, '.');
        if (strcmp(o->path, "-") == 0) {
            format = "obj";
        } else if (dot != NULL && (strcmp(dot, ".qpm") == 0 || strcmp(dot, ".obj") == 0)) {
            format = dot + 1;
        } else {
            qpc_fail(err, QPC_ERR_INVALID, "%.200s: name it .obj or .qpm, or say --format", o->path);
            return false;
        }
    }
    *ret_qpm = strcmp(format, "qpm") == 0;
    if (*ret_qpm || strcmp(format, "obj") == 0) return true;
    qpc_fail(err, QPC_ERR_INVALID, "--format is obj or qpm, not \"%.40s\"", format);
    return false;
}

static qpc_status write_mesh(const qpc_mesh_data *mesh, const char *comment, const char *path,
                             bool qpm, qpc_error *err) {
    bool to_stdout = strcmp(path, "-") == 0;
    FILE *out = to_stdout ? stdout : fopen(path, "wbe");
    if (out == NULL) return qpc_fail(err, QPC_ERR_IO, "%s: cannot open: %s", path, strerror(errno));
    qpc_status status = qpm ? qpc_mesh_data_write_qpm(mesh, out, err)
                            : qpc_mesh_data_write_obj(mesh, comment, out, err);
    if (!to_stdout && fclose(out) != 0 && status == QPC_OK)
        status = qpc_fail(err, QPC_ERR_IO, "%s: cannot write: %s", path, strerror(errno));
    if (status != QPC_OK && !to_stdout) unlink(path);
    return status;
}

static cli_exit finish_mesh(cli *c, qpc_mesh_data *mesh, const char *comment,
                            const mesh_output *o) {
    qpc_error err = {0};
    bool qpm;
    char sha256[65];
    cli_exit code = CLI_OK;
    if (!choose_format(o, &qpm, &err)) {
        code = cli_fail(c, CLI_USAGE, &err, NULL);
    } else if (qpc_mesh_data_sha256(mesh, sha256, &err) != QPC_OK ||
               write_mesh(mesh, comment, o->path, qpm, &err) != QPC_OK) {
        code = cli_fail(c, CLI_BAD_FILE, &err, NULL);
    } else if (strcmp(o->path, "-") != 0) {
        if (c->json) {
            qpc_value root = qpc_map();
            bool ok = cli_set(&root, "path", qpc_text_borrow(o->path));
            ok = cli_set(&root, "vertices", qpc_int(mesh->vertex_count)) && ok;
            ok = cli_set(&root, "elements", qpc_int(mesh->element_count)) && ok;
            ok = cli_set(&root, "volume", qpc_real(qpc_mesh_data_volume(mesh))) && ok;
            ok = cli_set(&root, "sha256", qpc_text_borrow(sha256)) && ok;
            code = ok ? cli_print_json(c, &root) : cli_no_memory(c);
            if (!ok) qpc_value_fini(&root);
        } else if (!c->quiet) {
            printf("%s: %d vertices, %d elements, sha256 %s\n", o->path, mesh->vertex_count,
                   mesh->element_count, sha256);
        }
    }
    qpc_mesh_data_fini(mesh);
    return code;
}

/// The surface of a file's tetrahedra.
static qpc_status read_skin(const char *path, qpc_mesh_data *ret, qpc_error *err) {
    qpc_volume_mesh volume;
    qpc_status status = qpc_volume_read(path, NULL, &volume, NULL, err);
    if (status != QPC_OK) return status;
    status = qpc_volume_mesh_skin(&volume, ret, NULL, err);
    qpc_volume_mesh_fini(&volume);
    return status;
}

static cli_exit convert_file(cli *c, int argc, char **argv) {
    mesh_output o = {0};
    bool surface = false;
    const cli_option options[] = {
        {"o", CLI_TEXT, &o.path, "FILE", "output; - is standard output"},
        {"format", CLI_TEXT, &o.format, "NAME", "obj, or qpm (the exact canonical bytes)"},
        {"surface", CLI_FLAG, &surface, NULL, "of a file of tetrahedra, the surface"},
        {"json", CLI_FLAG, &c->json, NULL, "print one JSON document"},
        {"quiet", CLI_FLAG, &c->quiet, NULL, "print nothing"},
        {NULL, CLI_FLAG, NULL, NULL, NULL}};
    static const cli_command command = {"mesh file",
                                        "INPUT -o FILE",
                                        "Read a mesh file (OBJ, STL, PLY, OFF, QPM; .msh, .vtk, .vtu, .node, .ele, .mesh) and write it.",
                                        1,
                                        1,
                                        NULL};
    const char *path;
    int count;
    cli_exit code;
    if (!cli_parse(&command, options, argc, argv, &path, &count, &code)) return code;
    qpc_error err = {0};
    if (o.path == NULL) {
        qpc_fail(&err, QPC_ERR_INVALID, "mesh file: -o FILE is missing");
        return cli_fail(c, CLI_USAGE, &err, NULL);
    }
    qpc_mesh_data mesh;
    qpc_status status = surface ? read_skin(path, &mesh, &err)
                                : qpc_mesh_file_read(path, NULL, &mesh, NULL, &err);
    if (status != QPC_OK) return cli_fail(c, CLI_BAD_FILE, &err, NULL);
    return finish_mesh(c, &mesh, NULL, &o);
}

/// Text of an option as the value of a parameter.
static bool param_value(const qpc_mesh_param *param, const char *text, qpc_value *ret,
                        qpc_error *err) {
    char *end = NULL;
    errno = 0;
    switch (param->type) {
    case QPC_PARAM_LENGTH:
        *ret = qpc_real(strtod(text, &end));
        break;
    case QPC_PARAM_COUNT:
        *ret = qpc_int(strtoll(text, &end, 10));
        break;
    case QPC_PARAM_AXIS:
        *ret = qpc_text_borrow(text);
        return true;
    case QPC_PARAM_FLAG:
        *ret = qpc_bool(strcmp(text, "true") == 0);
        if (ret->b || strcmp(text, "false") == 0) return true;
        qpc_fail(err, QPC_ERR_INVALID, "--%s is true or false, not \"%.40s\"", param->name, text);
        return false;
    }
    if (end != text && *end == '\0' && errno == 0) return true;
    qpc_fail(err, QPC_ERR_INVALID, "--%s wants a number, not \"%.40s\"", param->name, text);
    return false;
}

static void kinds_help(void) {
    printf("usage: qpc mesh KIND [options] -o FILE\n\n"
           "Make a mesh, of triangles at exactly the number asked for. Lengths are in m.\n"
           "qpc mesh KIND --help says what each takes.\n\n");
    for (int32_t i = 0; qpc_mesh_kind_get(i) != NULL; i++)
        printf("  %-10s %s\n", qpc_mesh_kind_get(i)->name, qpc_mesh_kind_get(i)->doc);
    printf("  %-10s %s\n", "file", "any mesh file that can be read, converted");
}

cli_exit cli_mesh(cli *c, int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : "";
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
        kinds_help();
        return CLI_OK;
    }
    if (strcmp(name, "file") == 0) return convert_file(c, argc - 1, argv + 1);
    const qpc_mesh_kind *kind = qpc_mesh_kind_find(name);
    if (kind == NULL) {
        fprintf(stderr, "qpc mesh: wanted a kind: sheave, funnel, cylinder, sphere, sheet, grid, box, block, "
                        "ellipsoid, or file\n");
        return CLI_USAGE;
    }
    mesh_output o = {0};
    const char *texts[QPC_MESH_PARAM_MAX] = {NULL};
    char docs[QPC_MESH_PARAM_MAX][160], title[48];
    cli_option options[QPC_MESH_PARAM_MAX + 5];
    int n = 0;
    for (; kind->params[n].name != NULL; n++) {
        snprintf(docs[n], sizeof docs[n], "%s (default %s)", kind->params[n].doc,
                 kind->params[n].standard);
        options[n] = (cli_option){kind->params[n].name, CLI_TEXT, &texts[n], "VALUE", docs[n]};
    }
    int params = n;
    options[n++] = (cli_option){"o", CLI_TEXT, &o.path, "FILE", "output; - is standard output"};
    options[n++] = (cli_option){"format", CLI_TEXT, &o.format, "NAME",
                                "obj, or qpm (the exact canonical bytes); default by the name"};
    options[n++] = (cli_option){"json", CLI_FLAG, &c->json, NULL, "print one JSON document"};
    options[n++] = (cli_option){"quiet", CLI_FLAG, &c->quiet, NULL, "print nothing"};
    options[n] = (cli_option){0};
    snprintf(title, sizeof title, "mesh %s", name);
    const cli_command command = {title, "-o FILE", kind->doc, 0, 0, NULL};
    int count;
    cli_exit code;
    if (!cli_parse(&command, options, argc - 1, argv + 1, NULL, &count, &code)) return code;
    qpc_error err = {0};
    qpc_mesh_data mesh = {0};
    qpc_value spec = qpc_map();
    bool good = cli_set(&spec, "kind", qpc_text_borrow(kind->name));
    if (o.path == NULL) {
        qpc_fail(&err, QPC_ERR_INVALID, "mesh %s: -o FILE is missing", name);
        good = false;
    }
    for (int i = 0; good && i < params; i++) {
        qpc_value v;
        if (texts[i] == NULL) continue;
        good = param_value(&kind->params[i], texts[i], &v, &err) &&
               cli_set(&spec, kind->params[i].name, v);
    }
    if (good) good = qpc_mesh_generate(&spec, title, &mesh, &err) == QPC_OK;
    qpc_value_fini(&spec);
    if (!good) return cli_fail(c, CLI_USAGE, &err, NULL);
    char comment[120];
    snprintf(comment, sizeof comment, "%s of %d elements, metres, by qpc mesh", name,
             mesh.element_count);
    return finish_mesh(c, &mesh, comment, &o);
}

// ---- upload ----

static void show_sent(void *user, uint64_t sent, uint64_t total) {
    char text[64];
    snprintf(text, sizeof text, "%.1f of %.1f MB", (double)sent / 1e6, (double)total / 1e6);
    cli_progress_show(user, (double)sent / (double)total, text);
}

cli_exit cli_upload(cli *c, int argc, char **argv) {
    const char *label = NULL, *path;
    const cli_option options[] = {
        {"name", CLI_TEXT, &label, "NAME", "label of the mesh (default: the file's name)"},
        CLI_DATA_OPTION(c),
        CLI_SERVER_OPTIONS(c),
        {NULL, CLI_FLAG, NULL, NULL, NULL}};
    static const cli_command command = {
        "upload",
        "FILE",
        "Read a mesh file (OBJ, STL, PLY, OFF, QPM and others) and send it to the server.",
        1,
        1,
        "Prints the SHA-256 under which a scene may name it. A mesh that the server has is not "
        "sent again."};
    int count;
    cli_exit code;
    if (!cli_parse(&command, options, argc, argv, &path, &count, &code)) return code;
    qpc_error err = {0};
    qpc_mesh_data mesh;
    if (qpc_mesh_file_read(path, NULL, &mesh, NULL, &err) != QPC_OK)
        return cli_fail(c, CLI_BAD_FILE, &err, NULL);
    code = cli_connect(c, true);
    if (code == CLI_OK) {
        const char *slash = strrchr(path, '/');
        cli_progress progress;
        cli_progress_start(&progress, c, "upload");
        qpc_mesh_source source = {.name = label != NULL   ? label
                                          : slash != NULL ? slash + 1
                                                          : path,
                                  .vertices = mesh.vertices,
                                  .elements = mesh.elements,
                                  .vertex_count = mesh.vertex_count,
                                  .element_count = mesh.element_count,
                                  .nodes_per_element = mesh.nodes_per_element,
                                  .progress = show_sent,
                                  .user = &progress};
        qpc_mesh_receipt receipt;
        qpc_status status = qpc_client_mesh_upload(c->client, &source, &receipt, &err);
        cli_progress_end(&progress);
        if (status != QPC_OK) {
            code = cli_fail_input(c, &err, path);
        } else if (c->json) {
            qpc_value root = qpc_map();
            bool ok = cli_set(&root, "sha256", qpc_text_borrow(receipt.sha256));
            ok = cli_set(&root, "known", qpc_bool(receipt.known)) && ok;
            ok = cli_set(&root, "vertices", qpc_int(mesh.vertex_count)) && ok;
            ok = cli_set(&root, "elements", qpc_int(mesh.element_count)) && ok;
            ok = cli_set(&root, "bytes", qpc_uint(receipt.bytes)) && ok;
            code = ok ? cli_print_json(c, &root) : cli_no_memory(c);
            if (!ok) qpc_value_fini(&root);
        } else {
            printf("%s  %s%s\n", receipt.sha256, path, receipt.known ? " (known already)" : "");
        }
        if (status == QPC_OK) qpc_message_fini(&receipt.message);
    }
    qpc_mesh_data_fini(&mesh);
    return code;
}

// ---- worlds and stats ----

cli_exit cli_worlds(cli *c, int argc, char **argv) {
    const cli_option options[] = {CLI_SERVER_OPTIONS(c), {NULL, CLI_FLAG, NULL, NULL, NULL}};
    static const cli_command command = {"worlds", "", "List the worlds that live on the server.",
                                        0,        0,  NULL};
    int count;
    cli_exit code;
    if (!cli_parse(&command, options, argc, argv, NULL, &count, &code)) return code;
    code = cli_connect(c, false);
    if (code != CLI_OK) return code;
    qpc_message m = {0};
    qpc_error err = {0};
    if (qpc_call(c->client, "world.list", NULL, &m, &err) != QPC_OK) return cli_fail_call(c, &err);
    const qpc_value *worlds = cli_at(m.value, "worlds");
    if (c->json) {
        qpc_value copy;
        code =
            qpc_value_copy(m.value, &copy) == QPC_OK ? cli_print_json(c, &copy) : cli_no_memory(c);
    } else {
        printf("%8s  %10s  %10s  %8s  %-5s  %-32s  %s\n", "world", "step", "time s", "nodes",
               "busy", "run", "name");
        for (int32_t i = 0; worlds->kind == QPC_LIST && i < worlds->list.count; i++) {
            const qpc_value *w = &worlds->list.items[i], *busy = cli_at(w, "busy");
            char run[40], name[80];
            printf("%8lld  %10lld  %10.4f  %8lld  %-5s  %-32s  %s\n",
                   (long long)cli_int(w, "world", 0), (long long)cli_int(w, "step", 0),
                   cli_real(w, "time", 0), (long long)cli_int(w, "nodes", 0),
                   busy->kind == QPC_BOOL && busy->b ? "yes" : "no",
                   cli_text(w, "run", run, sizeof run), cli_text(w, "name", name, sizeof name));
        }
    }
    qpc_message_fini(&m);
    return code;
}

/// A map as lines "  key    value", maps in it indented under their key.
static void print_map(const qpc_value *map, int indent) {
    for (int32_t i = 0; i < map->map.count; i++) {
        const qpc_value *key = &map->map.pairs[i].key, *v = &map->map.pairs[i].value;
        printf("%*s%-*.*s ", indent, "", 22 - indent, (int)key->str.size, key->str.bytes);
        switch (v->kind) {
        case QPC_INT:
            if (v->is_unsigned) {
                printf("%llu\n", (unsigned long long)v->u);
            } else {
                printf("%lld\n", (long long)v->i);
            }
            break;
        case QPC_REAL:
            printf("%.6g\n", v->real);
            break;
        case QPC_BOOL:
            printf("%s\n", v->b ? "yes" : "no");
            break;
        case QPC_STR:
            printf("%.*s\n", (int)v->str.size, v->str.bytes);
            break;
        case QPC_MAP:
            putchar('\n');
            print_map(v, indent + 2);
            break;
        default:
            printf("-\n");
            break;
        }
    }
}

cli_exit cli_stats(cli *c, int argc, char **argv) {
    const cli_option options[] = {CLI_SERVER_OPTIONS(c), {NULL, CLI_FLAG, NULL, NULL, NULL}};
    static const cli_command command = {"stats", "", "Counters of the server.", 0, 0, NULL};
    int count;
    cli_exit code;
    if (!cli_parse(&command, options, argc, argv, NULL, &count, &code)) return code;
    code = cli_connect(c, false);
    if (code != CLI_OK) return code;
    qpc_message m = {0};
    qpc_error err = {0};
    if (qpc_client_server_stats(c->client, &m, &err) != QPC_OK) return cli_fail_call(c, &err);
    if (c->json) {
        qpc_value copy;
        code =
            qpc_value_copy(m.value, &copy) == QPC_OK ? cli_print_json(c, &copy) : cli_no_memory(c);
    } else if (m.value->kind == QPC_MAP) {
        print_map(m.value, 0);
    }
    qpc_message_fini(&m);
    return code;
}
