/// `qpc check` of mesh files, and what pre-flight found, in lines.
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "client/cli/cli.h"
#include "client/meshio/meshfile.h"

enum { SHOWN = 8 };

static void print_items(const qpc_value *finding) {
    const qpc_value *items = cli_at(finding, "items");
    if (items->kind != QPC_LIST || items->list.count == 0) return;
    char elements[40];
    int32_t count = items->list.count;
    printf(" (%s", cli_text(finding, "elements", elements, sizeof elements));
    for (int32_t i = 0; i < count && i < SHOWN; i++) {
        const qpc_value *item = &items->list.items[i];
        bool edge = strcmp(elements, "edge") == 0;
        printf("%s", i > 0 ? ", " : " ");
        for (int32_t k = 0; item->kind == QPC_LIST && k < item->list.count; k++) {
            if (edge && k == 2) {
                printf(" of %lld", (long long)item->list.items[k].i);
            } else {
                printf("%s%lld", k > 0 ? "-" : "", (long long)item->list.items[k].i);
            }
        }
    }
    printf("%s)", cli_int(finding, "total", 0) > SHOWN ? ", ..." : "");
}

int32_t cli_print_findings(const qpc_value *list, const char *weight, const qpc_value *bodies) {
    int32_t count = list->kind == QPC_LIST ? list->list.count : 0;
    for (int32_t i = 0; i < count; i++) {
        const qpc_value *finding = &list->list.items[i];
        char text[400], name[80] = "";
        int64_t body = cli_int(finding, "body", -1), total = cli_int(finding, "total", -1);
        for (int32_t k = 0; body >= 0 && bodies != NULL && bodies->kind == QPC_LIST && k < bodies->list.count; k++)
            if (cli_int(&bodies->list.items[k], "body", -1) == body)
                cli_text(&bodies->list.items[k], "name", name, sizeof name);
        printf("  %s: ", weight);
        if (name[0] != '\0' && strcmp(name, "-") != 0) {
            printf("%s: ", name);
        } else if (body >= 0) {
            printf("bodies[%lld]: ", (long long)body);
        }
        if (total >= 0) printf("%lld ", (long long)total);
        printf("%s", cli_text(finding, "text", text, sizeof text));
        print_items(finding);
        putchar('\n');
    }
    return count;
}

static void print_facts(const char *path, const qpc_value *answer) {
    const qpc_value *facts = cli_at(answer, "facts"), *closed = cli_at(facts, "closed");
    const qpc_value *oriented = cli_at(facts, "oriented"), *complete = cli_at(facts, "complete");
    bool is_oriented = oriented->kind == QPC_BOOL && oriented->b;
    char use[20];
    printf("%s, as %s: %lld vertices, %lld triangles, %lld %s, %s%s, %g m2", path,
           cli_text(answer, "use", use, sizeof use), (long long)cli_int(facts, "vertices", 0),
           (long long)cli_int(facts, "triangles", 0), (long long)cli_int(facts, "parts", 0),
           cli_int(facts, "parts", 0) == 1 ? "part" : "parts",
           closed->kind == QPC_BOOL && closed->b ? "closed" : "not closed",
           is_oriented ? " and oriented" : "", cli_real(facts, "area", 0));
    if (is_oriented) printf(", %g m3", cli_real(facts, "volume", 0));
    printf("\n");
    if (complete->kind == QPC_BOOL && !complete->b)
        printf("  too many pairs: crossings were counted in part\n");
}

/// The mesh to the server; its hash, and what became of it on the way.
static cli_exit send_mesh(cli *c, const char *path, char ret_sha256[65], qpc_mesh_file_report *report) {
    qpc_error err = {0};
    qpc_mesh_data mesh;
    qpc_mesh_receipt receipt;
    if (qpc_mesh_file_read(path, NULL, &mesh, report, &err) != QPC_OK)
        return cli_fail(c, CLI_BAD_FILE, &err, NULL);
    const char *slash = strrchr(path, '/');
    qpc_mesh_source source = {.name = slash != NULL ? slash + 1 : path,
                              .vertices = mesh.vertices,
                              .elements = mesh.elements,
                              .vertex_count = mesh.vertex_count,
                              .element_count = mesh.element_count,
                              .nodes_per_element = mesh.nodes_per_element};
    cli_exit code = cli_connect(c, true);
    if (code == CLI_OK && qpc_client_mesh_upload(c->client, &source, &receipt, &err) != QPC_OK) {
        code = cli_fail_input(c, &err, path);
    } else if (code == CLI_OK) {
        memcpy(ret_sha256, receipt.sha256, 65);
        qpc_message_fini(&receipt.message);
    }
    qpc_mesh_data_fini(&mesh);
    return code;
}

/// A warning more: vertices that the server has not seen, as the file's reader leaves out what no triangle has.
static bool add_unused(qpc_value *answer, const qpc_mesh_file_report *report, int64_t list) {
    if (report->unused == 0) return true;
    qpc_value finding = qpc_map(), items = qpc_list();
    int64_t named = list > 0 && list < QPC_MESH_FILE_NAMED ? list : QPC_MESH_FILE_NAMED;
    bool ok = true;
    for (int64_t i = 0; i < named && i < report->unused; i++) {
        qpc_value item = qpc_list();
        ok = qpc_list_push(&item, qpc_int(report->unused_first[i])) == QPC_OK && ok;
        ok = qpc_list_push(&items, item) == QPC_OK && ok;
    }
    ok = cli_set(&finding, "kind", qpc_text_borrow("unreferenced_vertices")) && ok;
    ok = cli_set(&finding, "text", qpc_text_borrow("vertices of the file are used by no triangle: they are left out, and the others renumbered")) && ok;
    ok = cli_set(&finding, "total", qpc_int(report->unused)) && ok;
    ok = cli_set(&finding, "elements", qpc_text_borrow("vertex")) && ok;
    ok = cli_set(&finding, "items", items) && ok;
    for (int32_t i = 0; i < answer->map.count; i++)
        if (qpc_str_equal(&answer->map.pairs[i].key, "warnings")) return qpc_list_push(&answer->map.pairs[i].value, finding) == QPC_OK && ok;
    qpc_value_fini(&finding);
    return ok;
}

/// The answer as JSON, or in lines; CLI_BAD_FILE where there are errors.
static cli_exit show_check(cli *c, const char *path, qpc_value *answer) {
    const qpc_value *errors = cli_at(answer, "errors");
    bool bad = errors->kind == QPC_LIST && errors->list.count > 0;
    if (c->json) {
        cli_exit code = cli_print_json(c, answer);
        return code == CLI_OK && bad ? CLI_BAD_FILE : code;
    }
    print_facts(path, answer);
    cli_print_findings(errors, "error", NULL);
    if (cli_print_findings(cli_at(answer, "warnings"), "warning", NULL) == 0 && !bad) printf("  good\n");
    qpc_value_fini(answer);
    return bad ? CLI_BAD_FILE : CLI_OK;
}

cli_exit cli_check_mesh(cli *c, const char *path, const char *use, int64_t list) {
    char sha256[65];
    qpc_mesh_file_report report = {0};
    cli_exit code = send_mesh(c, path, sha256, &report);
    if (code != CLI_OK) return code;
    qpc_value params = qpc_map();
    qpc_message m = {0};
    qpc_error err = {0};
    bool ok = cli_set(&params, "sha256", qpc_text_borrow(sha256));
    if (use != NULL) ok = cli_set(&params, "use", qpc_text_borrow(use)) && ok;
    if (list > 0) ok = cli_set(&params, "list", qpc_int(list)) && ok;
    if (!ok) {
        code = cli_no_memory(c);
    } else if (qpc_call(c->client, "mesh.check", &params, &m, &err) != QPC_OK) {
        code = cli_fail_call(c, &err);
    } else {
        qpc_value answer = qpc_nil();
        if (qpc_value_copy(m.value, &answer) == QPC_OK && add_unused(&answer, &report, list)) {
            code = show_check(c, path, &answer);
        } else {
            qpc_value_fini(&answer);
            code = cli_no_memory(c);
        }
    }
    qpc_message_fini(&m);
    qpc_value_fini(&params);
    return code;
}

bool cli_is_mesh_file(const char *path) {
    static const char *const ends[] = {"obj", "ply", "off", "stl",  "msh", "vtk",
                                       "vtu", "node", "ele", "mesh", "qpm"};
    const char *dot = strrchr(path, '.');
    for (size_t i = 0; dot != NULL && i < sizeof ends / sizeof ends[0]; i++)
        if (strcasecmp(dot + 1, ends[i]) == 0) return true;
    return false;
}

cli_exit cli_check_scene_meshes(cli *c, const qpc_value *scene, qpc_value *ret) {
    qpc_value params = qpc_map(), copy = qpc_nil();
    qpc_message m = {0};
    qpc_error err = {0};
    cli_exit code = CLI_OK;
    bool ok = qpc_value_copy(scene, &copy) == QPC_OK && cli_set(&params, "scene", copy);
    if (!ok) {
        code = cli_no_memory(c);
    } else if (qpc_call(c->client, "scene.check", &params, &m, &err) != QPC_OK) {
        code = cli_fail_call(c, &err);
    } else if (qpc_value_copy(m.value, ret) != QPC_OK) {
        code = cli_no_memory(c);
    }
    qpc_message_fini(&m);
    qpc_value_fini(&params);
    return code;
}
