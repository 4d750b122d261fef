/// mesh.check and scene.check: pre-flight, on a worker.
///
/// A scene is looked at twice: the meshes of its bodies for what each body is, and the whole as
/// world.create would, with a world that is thrown away. What is wrong is a result, not an error.
#include "server/router.h"

#include "base/hash.h"
#include "base/mem.h"
#include "engine/engine.h"
#include "engine/preflight/preflight.h"
#include "server/builder.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const double MASS_RATIO = 1e4; // above: worth a warning

// ---- what was found, as values ----

static qpc_value finding_value(const qpc_finding *finding, const qpc_finding_spec *spec,
                               qpc_status *status) {
    qpc_value map = qpc_map(), items = qpc_list();
    qpc_put(&map, status, "kind", qpc_text_borrow(spec->name));
    qpc_put(&map, status, "text", qpc_text_borrow(spec->text));
    qpc_put(&map, status, "total", qpc_int(finding->total));
    qpc_put(&map, status, "elements", qpc_text_borrow(spec->elements));
    for (int32_t i = 0; i < finding->count && spec->numbers > 0; i++) {
        qpc_value item = qpc_list();
        for (int32_t k = 0; k < spec->numbers; k++) {
            qpc_add(&item, status, qpc_int(finding->items[(int64_t)spec->numbers * i + k]));
        }
        qpc_add(&items, status, item);
    }
    qpc_put(&map, status, "items", items);
    return map;
}

static void put_facts(qpc_value *map, qpc_status *status, const qpc_preflight *r) {
    qpc_value facts = qpc_map();
    const struct {
        const char *key;
        int64_t value;
    } counts[] = {{"vertices", r->vertices}, {"triangles", r->triangles}, {"edges", r->edges},
                  {"elements", r->elements}, {"parts", r->parts},         {"euler", r->euler}};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        qpc_put(&facts, status, counts[i].key, qpc_int(counts[i].value));
    }
    qpc_put(&facts, status, "closed", qpc_bool(r->closed));
    qpc_put(&facts, status, "oriented", qpc_bool(r->oriented));
    qpc_put(&facts, status, "complete", qpc_bool(r->complete));
    qpc_put(&facts, status, "area", qpc_real(r->area));
    qpc_put(&facts, status, "volume", qpc_real(r->volume));
    for (int k = 0; k < 2; k++) {
        qpc_value corner = qpc_list();
        for (int d = 0; d < 3; d++) qpc_add(&corner, status, qpc_real(k == 0 ? r->low[d] : r->high[d]));
        qpc_put(&facts, status, k == 0 ? "low" : "high", corner);
    }
    qpc_put(map, status, "facts", facts);
}

/// Findings to errors and warnings, each with `body` unless it is negative. given_masses: of each node, so that none is without.
static void add_findings(qpc_value *errors, qpc_value *warnings, qpc_status *status,
                         const qpc_preflight *r, qpc_mesh_use use, int32_t body, bool given_masses) {
    for (int32_t kind = 0; kind < QPC_FINDING_COUNT; kind++) {
        char weight = qpc_preflight_weight(r, (qpc_finding_kind)kind, use);
        if (weight == '-') continue;
        if (kind == QPC_FINDING_UNREFERENCED_VERTICES && given_masses) weight = 'W';
        qpc_value map = finding_value(&r->finding[kind], &qpc_finding_specs[kind], status);
        if (body >= 0) qpc_put(&map, status, "body", qpc_int(body));
        qpc_add(weight == 'E' ? errors : warnings, status, map);
    }
}

/// A mesh of other elements than its use takes, which world.create refuses.
static void add_unfit(qpc_value *errors, qpc_status *status, const qpc_mesh *mesh, qpc_mesh_use use) {
    const char *text = qpc_preflight_unfit(qpc_mesh_nodes_per_element(mesh), use);
    qpc_finding finding = {.total = qpc_mesh_element_count(mesh)};
    qpc_finding_spec spec = {.name = "wrong_elements", .elements = "", .text = text};
    if (text != NULL) qpc_add(errors, status, finding_value(&finding, &spec, status));
}

static qpc_status run_preflight(const qpc_mesh *mesh, const qpc_value *params, qpc_preflight *ret,
                                qpc_error *err) {
    const qpc_value *list = qpc_map_get(params, "list");
    qpc_preflight_options options = {.list = list != NULL ? (int32_t)list->i : 0};
    return qpc_preflight_run(qpc_mesh_vertices(mesh), qpc_mesh_vertex_count(mesh),
                             qpc_mesh_elements(mesh), qpc_mesh_element_count(mesh),
                             qpc_mesh_nodes_per_element(mesh), &options, ret, err);
}

static void reply(qpc_request *request, qpc_value *map, qpc_status status) {
    qpc_error error = {0};
    if (status != QPC_OK) {
        qpc_fail(&error, status, "out of memory for a reply");
        qpc_request_fail(request, &error, NULL);
    } else {
        qpc_request_succeed(request, map, (size_t)request->server->options.max_message_bytes);
    }
    qpc_value_fini(map);
}

// ---- mesh.check ----

static qpc_status find_mesh(qpc_server *server, const qpc_value *hash, qpc_mesh **ret, qpc_error *err) {
    uint8_t sha256[32];
    if (hash == NULL || hash->kind != QPC_STR ||
        !qpc_hex_decode(hash->str.bytes, hash->str.size, sha256, 32)) {
        return qpc_fail_at(err, QPC_ERR_INVALID, "sha256", "want 64 hex digits");
    }
    return qpc_meshes_find(server->meshes, sha256, ret, err);
}

static qpc_mesh_use use_of(const qpc_value *word, const qpc_mesh *mesh) {
    for (int i = 0; word != NULL && i < QPC_USE_COUNT; i++) {
        if (word->str.size == strlen(qpc_mesh_use_names[i]) &&
            memcmp(word->str.bytes, qpc_mesh_use_names[i], word->str.size) == 0) {
            return (qpc_mesh_use)i;
        }
    }
    return qpc_mesh_nodes_per_element(mesh) == 4 ? QPC_USE_SOFT : QPC_USE_SURFACE;
}

static void check_mesh(qpc_request *request) {
    qpc_error error = {0};
    qpc_mesh *mesh = NULL;
    qpc_preflight report;
    qpc_status status =
        find_mesh(request->server, qpc_map_get(&request->params, "sha256"), &mesh, &error);
    if (status == QPC_OK) status = run_preflight(mesh, &request->params, &report, &error);
    if (status != QPC_OK) {
        qpc_mesh_unref(mesh);
        qpc_request_fail(request, &error, NULL);
        return;
    }
    qpc_mesh_use use = use_of(qpc_map_get(&request->params, "use"), mesh);
    qpc_value map = qpc_map(), errors = qpc_list(), warnings = qpc_list();
    qpc_put(&map, &status, "use", qpc_text_borrow(qpc_mesh_use_names[use]));
    add_unfit(&errors, &status, mesh, use);
    add_findings(&errors, &warnings, &status, &report, use, -1, false);
    qpc_put(&map, &status, "errors", errors);
    qpc_put(&map, &status, "warnings", warnings);
    put_facts(&map, &status, &report);
    reply(request, &map, status);
    qpc_preflight_fini(&report);
    qpc_mesh_unref(mesh);
}

QPC_HANDLER(qpc_handle_mesh_check) {
    (void)ret;
    (void)ret_data;
    qpc_request *request = NULL;
    qpc_status status = qpc_call_defer(call, true, &request, err);
    if (status == QPC_OK) qpc_call_run(call, request, check_mesh, NULL);
    return status;
}

// ---- scene.check ----

typedef struct scene_check {
    qpc_value errors, warnings, bodies;
    double mass_ratio;
    qpc_status status; // of building these
} scene_check;

static bool is_word(const qpc_value *v, const char *word) {
    return v != NULL && v->kind == QPC_STR && v->str.size == strlen(word) &&
           memcmp(v->str.bytes, word, v->str.size) == 0;
}

/// A finding about the whole scene, in words.
static void add_remark(qpc_value *list, qpc_status *status, const char *text, const char *where) {
    qpc_value map = qpc_map();
    qpc_put(&map, status, "kind", qpc_text_borrow("scene"));
    qpc_put_text(&map, status, "text", text);
    if (where != NULL) qpc_put_text(&map, status, "where", where);
    qpc_add(list, status, map);
}

static qpc_status check_body(qpc_request *request, const qpc_value *body, int32_t number,
                             scene_check *c, qpc_error *err) {
    const qpc_value *spec = body->kind == QPC_MAP ? qpc_map_get(body, "mesh") : NULL;
    const qpc_value *hash = spec != NULL && spec->kind == QPC_MAP ? qpc_map_get(spec, "sha256") : NULL;
    if (hash == NULL) return QPC_OK;
    const qpc_value *kind = qpc_map_get(body, "kind"), *name = qpc_map_get(body, "name");
    qpc_mesh *mesh = NULL;
    qpc_preflight report;
    qpc_status status = find_mesh(request->server, hash, &mesh, err);
    if (status == QPC_ERR_NOT_FOUND || status == QPC_ERR_INVALID) return QPC_OK; // the world will say so
    if (status == QPC_OK) status = run_preflight(mesh, &request->params, &report, err);
    if (status != QPC_OK) {
        qpc_mesh_unref(mesh);
        return status;
    }
    qpc_mesh_use use = qpc_mesh_nodes_per_element(mesh) == 4 ? QPC_USE_SOFT : QPC_USE_SURFACE;
    if (is_word(kind, "cloth")) use = QPC_USE_CLOTH;
    const qpc_value *close = qpc_map_get(body, "close");
    // Where the scene says how, a rigid body may be open.
    bool may_be_open = qpc_map_get(body, "inertia") != NULL || (close != NULL && close->kind == QPC_BOOL && close->b);
    if (is_word(kind, "rigid") && !may_be_open) use = QPC_USE_RIGID;
    if (is_word(kind, "soft")) use = QPC_USE_SOFT;
    const qpc_value *mass = qpc_map_get(body, "mass");
    bool given_masses = mass != NULL && mass->kind != QPC_INT && mass->kind != QPC_REAL;
    add_findings(&c->errors, &c->warnings, &c->status, &report, use, number, given_masses);
    qpc_value map = qpc_map(), copy = qpc_nil();
    qpc_put(&map, &c->status, "body", qpc_int(number));
    const struct {
        const char *key;
        const qpc_value *value;
    } texts[] = {{"name", name}, {"kind", kind}, {"sha256", hash}};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (texts[i].value == NULL) continue;
        copy = qpc_nil();
        if (c->status == QPC_OK) c->status = qpc_value_copy(texts[i].value, &copy);
        qpc_put(&map, &c->status, texts[i].key, copy);
    }
    qpc_put(&map, &c->status, "use", qpc_text_borrow(qpc_mesh_use_names[use]));
    put_facts(&map, &c->status, &report);
    qpc_add(&c->bodies, &c->status, map);
    qpc_preflight_fini(&report);
    qpc_mesh_unref(mesh);
    return QPC_OK;
}

/// Heaviest and lightest node that moves.
static void compare_masses(const qpc_world *world, scene_check *c) {
    const double *mass = qpc_world_masses(world);
    int32_t at[2][2] = {{0}}; // body and node in it, of the heaviest and of the lightest
    double most = 0, least = INFINITY;
    for (int32_t b = 0; b < qpc_world_body_count(world); b++) {
        qpc_body_info info = qpc_world_body(world, b);
        for (int32_t k = 0; info.moves && k < info.node_count; k++) {
            double m = mass[info.first_node + k];
            if (!(m > 0)) continue;
            if (m > most) {
                most = m;
                at[0][0] = b, at[0][1] = k;
            }
            if (m < least) {
                least = m;
                at[1][0] = b, at[1][1] = k;
            }
        }
    }
    if (!(most > 0)) return;
    c->mass_ratio = most / least;
    if (!(c->mass_ratio > MASS_RATIO)) return;
    char text[160];
    snprintf(text, sizeof text, "masses of nodes from %g to %g kg: a ratio of %.1e", least, most,
             c->mass_ratio);
    qpc_value map = qpc_map(), items = qpc_list();
    qpc_put(&map, &c->status, "kind", qpc_text_borrow("mass_ratio"));
    qpc_put_text(&map, &c->status, "text", text);
    qpc_put(&map, &c->status, "total", qpc_int(1));
    qpc_put(&map, &c->status, "elements", qpc_text_borrow("body and node"));
    for (int i = 0; i < 2; i++) {
        qpc_value item = qpc_list();
        for (int k = 0; k < 2; k++) qpc_add(&item, &c->status, qpc_int(at[i][k]));
        qpc_add(&items, &c->status, item);
    }
    qpc_put(&map, &c->status, "items", items);
    qpc_add(&c->warnings, &c->status, map);
}

static qpc_status lookup_mesh(void *user, const uint8_t sha256[32], qpc_mesh **ret, qpc_error *err) {
    qpc_server *server = user;
    return qpc_meshes_find(server->meshes, sha256, ret, err);
}

/// As world.create would: the world is made and thrown away.
static void try_world(qpc_request *request, const qpc_value *scene, scene_check *c) {
    qpc_world_env env = {.user = request->server,
                         .mesh_lookup = lookup_mesh,
                         .limits = {.max_nodes = request->server->options.max_nodes}};
    qpc_scene_report report;
    qpc_error error = {0};
    qpc_world *world = NULL;
    if (qpc_world_create(scene, &env, &world, &report, &error) != QPC_OK) {
        add_remark(&c->errors, &c->status, error.message, error.where);
        return;
    }
    for (int32_t i = 0; i < report.warning_count && i < 8; i++) {
        add_remark(&c->warnings, &c->status, report.warning[i], NULL);
    }
    if (report.close_count > 0) {
        char text[120];
        snprintf(text, sizeof text, "%" PRId64 " pairs start within their thickness", report.close_count);
        add_remark(&c->warnings, &c->status, text, NULL);
    }
    compare_masses(world, c);
    qpc_world_destroy(world);
}

static void check_scene(qpc_request *request) {
    const qpc_value *scene = qpc_map_get(&request->params, "scene");
    const qpc_value *bodies = qpc_map_get(scene, "bodies");
    scene_check c = {.errors = qpc_list(), .warnings = qpc_list(), .bodies = qpc_list()};
    qpc_error error = {0};
    qpc_status status = QPC_OK;
    int32_t count = bodies != NULL && bodies->kind == QPC_LIST ? bodies->list.count : 0;
    for (int32_t i = 0; i < count && status == QPC_OK; i++) {
        status = check_body(request, &bodies->list.items[i], i, &c, &error);
    }
    if (status == QPC_OK) try_world(request, scene, &c);
    qpc_value map = qpc_map();
    qpc_put(&map, &c.status, "errors", c.errors);
    qpc_put(&map, &c.status, "warnings", c.warnings);
    qpc_put(&map, &c.status, "bodies", c.bodies);
    qpc_put(&map, &c.status, "mass_ratio", qpc_real(c.mass_ratio));
    if (status != QPC_OK) {
        qpc_value_fini(&map);
        qpc_request_fail(request, &error, NULL);
        return;
    }
    reply(request, &map, c.status);
}

QPC_HANDLER(qpc_handle_scene_check) {
    (void)ret;
    (void)ret_data;
    qpc_request *request = NULL;
    qpc_status status = qpc_call_defer(call, true, &request, err);
    if (status == QPC_OK) qpc_call_run(call, request, check_scene, NULL);
    return status;
}
