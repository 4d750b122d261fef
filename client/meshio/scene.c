/// Scene files: disk form to wire form. See scene.h.
#include "client/meshio/scene.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/nearest.h"
#include "client/meshio/generate.h"
#include "client/meshio/meshfile.h"

#define PI 3.14159265358979323846
enum { WHERE_SIZE = 120, CABLE_NODES_MAX = 10000000 };
static const int64_t FILE_MAX = (int64_t)256 << 20;

static qpc_status out_of_memory(qpc_error *err) {
    return qpc_fail(err, QPC_ERR_MEMORY, "out of memory: a scene");
}

qpc_status qpc_json_read_file(const char *path, qpc_value *ret, qpc_error *err) {
    FILE *file = fopen(path, "rbe");
    if (file == NULL)
        return qpc_fail(err, errno == ENOENT ? QPC_ERR_NOT_FOUND : QPC_ERR_IO,
                        "%s: cannot open: %s", path, strerror(errno));
    // Read by pieces: a pipe has no size, and a file may grow.
    char *text = NULL;
    size_t size = 0, capacity = 0;
    qpc_status status = QPC_OK;
    while (status == QPC_OK) {
        if (size == capacity) {
            size_t wanted = capacity == 0 ? 16384 : 2 * capacity;
            char *grown = wanted > (size_t)FILE_MAX ? NULL : qpc_realloc(text, wanted);
            if (wanted > (size_t)FILE_MAX) {
                status = qpc_fail(err, QPC_ERR_LIMIT, "%s: larger than %lld MiB", path,
                                  (long long)(FILE_MAX >> 20));
                break;
            }
            if (grown == NULL) {
                status = out_of_memory(err);
                break;
            }
            text = grown;
            capacity = wanted;
        }
        size_t got = fread(text + size, 1, capacity - size, file);
        size += got;
        if (got == 0) {
            if (ferror(file))
                status = qpc_fail(err, QPC_ERR_IO, "%s: cannot read: %s", path, strerror(errno));
            break;
        }
    }
    fclose(file);
    if (status == QPC_OK) {
        qpc_error why = {0};
        status = qpc_json_parse(text, size, ret, &why);
        if (status != QPC_OK) status = qpc_fail(err, status, "%s: %s", path, why.message);
    }
    qpc_free(text);
    return status;
}

// ---- meshes ----

typedef struct resolver {
    const char *base_dir;
    qpc_mesh_sink sink;
    void *user;
    qpc_error *err;
} resolver;

/// base_dir/file, or file if it is absolute; newly allocated.
static char *join_path(const char *base_dir, const char *file) {
    if (file[0] == '/' || base_dir == NULL || base_dir[0] == '\0') return qpc_strdup(file);
    size_t a = strlen(base_dir), b = strlen(file);
    char *path = qpc_alloc(a + b + 2);
    if (path == NULL) return NULL;
    memcpy(path, base_dir, a);
    path[a] = '/';
    memcpy(path + a + 1, file, b + 1);
    return path;
}

static qpc_status read_mesh_file(const resolver *r, const qpc_value *file, const char *where,
                                 char name[64], qpc_mesh_data *ret) {
    char text[4096];
    qpc_status status = qpc_read_text(file, where, text, sizeof text, r->err);
    if (status != QPC_OK) return status;
    char *path = join_path(r->base_dir, text);
    if (path == NULL) return out_of_memory(r->err);
    qpc_error why = {0};
    status = qpc_mesh_file_read(path, NULL, ret, NULL, &why);
    qpc_free(path);
    if (status != QPC_OK) return qpc_fail_at(r->err, status, where, "%s", why.message);
    const char *slash = strrchr(text, '/');
    snprintf(name, 64, "%.63s", slash != NULL ? slash + 1 : text);
    return QPC_OK;
}

static qpc_status resolve_mesh(const resolver *r, qpc_value *body, const char *body_where) {
    static const char *const keys[] = {"sha256", "file", "generate", NULL};
    const qpc_value *mesh = qpc_map_get(body, "mesh");
    if (mesh == NULL || mesh->kind != QPC_MAP) return QPC_OK; // the server says what it misses
    char where[WHERE_SIZE], at[WHERE_SIZE], name[64] = "mesh", sha256[65];
    snprintf(where, sizeof where, "%s.mesh", body_where);
    qpc_status status = qpc_map_check_keys(mesh, where, keys, r->err);
    if (status != QPC_OK) return status;
    const qpc_value *file = qpc_map_get(mesh, "file");
    const qpc_value *generate = qpc_map_get(mesh, "generate");
    const qpc_value *hash = qpc_map_get(mesh, "sha256");
    if ((file != NULL) + (generate != NULL) + (hash != NULL) != 1)
        return qpc_fail_at(r->err, QPC_ERR_INVALID, where,
                           "wanted exactly one of file, generate, sha256");
    if (hash != NULL) return QPC_OK;
    qpc_mesh_data data = {0};
    if (file != NULL) {
        snprintf(at, sizeof at, "%.100s.file", where);
        status = read_mesh_file(r, file, at, name, &data);
    } else {
        snprintf(at, sizeof at, "%.100s.generate", where);
        status = qpc_mesh_generate(generate, at, &data, r->err);
        if (status == QPC_OK)
            status = qpc_read_text(qpc_map_get(generate, "kind"), at, name, sizeof name, r->err);
    }
    if (status == QPC_OK) status = r->sink(r->user, where, name, &data, sha256, r->err);
    qpc_mesh_data_fini(&data);
    if (status != QPC_OK) return status;
    qpc_value resolved = qpc_map(), text = qpc_nil();
    if (qpc_text_copy(sha256, &text) != QPC_OK ||
        qpc_map_set(&resolved, "sha256", text) != QPC_OK) {
        qpc_value_fini(&resolved);
        return out_of_memory(r->err);
    }
    if (qpc_map_set(body, "mesh", resolved) != QPC_OK) return out_of_memory(r->err);
    return QPC_OK;
}

// ---- cables ----

static qpc_status read_vector(const qpc_value *map, const char *key, const char *where,
                              double ret[3], qpc_error *err) {
    char path[WHERE_SIZE];
    snprintf(path, sizeof path, "%.100s.%s", where, key);
    const qpc_value *v = qpc_map_get(map, key);
    if (v == NULL || v->kind != QPC_LIST || v->list.count != 3)
        return qpc_fail_at(err, QPC_ERR_INVALID, path, "wanted three numbers [x, y, z] in m");
    for (int k = 0; k < 3; k++) {
        qpc_status status = qpc_read_real(&v->list.items[k], path, -1e12, 1e12, &ret[k], err);
        if (status != QPC_OK) return status;
    }
    return QPC_OK;
}

static qpc_status read_number(const qpc_value *map, const char *key, const char *where, double low,
                              double high, double *ret, qpc_error *err) {
    char path[WHERE_SIZE];
    snprintf(path, sizeof path, "%.100s.%s", where, key);
    return qpc_read_real(qpc_map_get(map, key), path, low, high, ret, err);
}

/// Nodes evenly from one point to another.
static qpc_status place_line(const qpc_value *spec, const char *where, int64_t count, double *x,
                             qpc_error *err) {
    double from[3], to[3];
    qpc_status status = read_vector(spec, "from", where, from, err);
    if (status == QPC_OK) status = read_vector(spec, "to", where, to, err);
    if (status != QPC_OK) return status;
    if (count > 1 && from[0] == to[0] && from[1] == to[1] && from[2] == to[2])
        return qpc_fail_at(err, QPC_ERR_INVALID, where, "from and to are the same point");
    for (int64_t i = 0; i < count; i++) {
        double s = count > 1 ? (double)i / (double)(count - 1) : 0;
        for (int k = 0; k < 3; k++) x[3 * i + k] = from[k] + s * (to[k] - from[k]);
    }
    return QPC_OK;
}

/// Nodes every `spacing` up along x = -radius, half around the axis z, and down along x = +radius;
/// the first leg is `extra` longer than half of what the half circle leaves.
static qpc_status place_pulley(const qpc_value *spec, const char *where, int64_t count, double *x,
                               qpc_error *err) {
    double spacing, radius, extra = 1;
    qpc_status status = read_number(spec, "spacing", where, 1e-9, 1e9, &spacing, err);
    if (status == QPC_OK) status = read_number(spec, "radius", where, 1e-9, 1e9, &radius, err);
    if (status == QPC_OK && qpc_map_get(spec, "extra") != NULL)
        status = read_number(spec, "extra", where, -1e9, 1e9, &extra, err);
    if (status != QPC_OK) return status;
    double length = spacing * (double)(count - 1), turn = PI * radius;
    double up = (length - turn) / 2 + extra, down = length - turn - up;
    if (!(up > 0 && down > 0))
        return qpc_fail_at(err, QPC_ERR_INVALID, where,
                           "a cable of %g m leaves legs of %g m and %g m beside a half circle of "
                           "%g m; both must be positive",
                           length, up, down, turn);
    for (int64_t i = 0; i < count; i++) {
        double s = spacing * (double)i - up, *p = x + 3 * i;
        p[2] = 0;
        if (s < 0) {
            p[0] = -radius;
            p[1] = s;
        } else if (s < turn) {
            p[0] = -radius * cos(s / radius);
            p[1] = radius * sin(s / radius);
        } else {
            p[0] = radius;
            p[1] = turn - s;
        }
    }
    return QPC_OK;
}

/// Nodes every `spacing` up along x = -radius, `turns` and a half turns around the axis z that move on
/// by `pitch` a turn, and down along x = +radius; middle at z = 0, the first leg `extra` longer.
static qpc_status place_helix(const qpc_value *spec, const char *where, int64_t count, double *x,
                              qpc_error *err) {
    double spacing, radius, pitch, extra = 0;
    int64_t turns = 0;
    char path[WHERE_SIZE];
    snprintf(path, sizeof path, "%.100s.turns", where);
    qpc_status status = read_number(spec, "spacing", where, 1e-9, 1e9, &spacing, err);
    if (status == QPC_OK) status = read_number(spec, "radius", where, 1e-9, 1e9, &radius, err);
    if (status == QPC_OK) status = read_number(spec, "pitch", where, -1e9, 1e9, &pitch, err);
    if (status == QPC_OK)
        status = qpc_read_int(qpc_map_get(spec, "turns"), path, 0, CABLE_NODES_MAX, &turns, err);
    if (status == QPC_OK && qpc_map_get(spec, "extra") != NULL)
        status = read_number(spec, "extra", where, -1e9, 1e9, &extra, err);
    if (status != QPC_OK) return status;
    double rise = pitch / (2 * PI), angle = PI * (double)(2 * turns + 1);
    double per_radian = sqrt(radius * radius + rise * rise);
    double length = spacing * (double)(count - 1), wound = angle * per_radian;
    double up = (length - wound + extra) / 2, down = length - wound - up, half = rise * angle / 2;
    if (!(up > 0 && down > 0))
        return qpc_fail_at(err, QPC_ERR_INVALID, where,
                           "a cable of %g m leaves legs of %g m and %g m beside %g m around the "
                           "axis; both must be positive",
                           length, up, down, wound);
    for (int64_t i = 0; i < count; i++) {
        double s = spacing * (double)i - up, *p = x + 3 * i;
        if (s < 0) {
            p[0] = -radius;
            p[1] = s;
            p[2] = -half;
        } else if (s < wound) {
            double turned = s / per_radian;
            p[0] = -radius * cos(turned);
            p[1] = radius * sin(turned);
            p[2] = rise * turned - half;
        } else {
            p[0] = radius;
            p[1] = wound - s;
            p[2] = half;
        }
    }
    return QPC_OK;
}

typedef struct cable_kind {
    const char *name;
    const char *keys[8];
    qpc_status (*place)(const qpc_value *spec, const char *where, int64_t count, double *x,
                        qpc_error *err);
} cable_kind;
enum { CABLE_KINDS = 3 };
static const cable_kind cable_kinds[CABLE_KINDS] = {
    {"line", {"kind", "count", "from", "to", NULL}, place_line},
    {"pulley", {"kind", "count", "spacing", "radius", "extra", NULL}, place_pulley},
    {"helix", {"kind", "count", "spacing", "radius", "turns", "pitch", "extra", NULL}, place_helix},
};

static qpc_status generate_nodes(const qpc_value *spec, const char *where, qpc_value *ret,
                                 qpc_error *err) {
    static const char *const kinds[] = {"line", "pulley", "helix", NULL};
    char path[WHERE_SIZE], kind[32];
    if (spec->kind != QPC_MAP)
        return qpc_fail_at(err, QPC_ERR_INVALID, where, "wanted a map {kind, count, ...}");
    snprintf(path, sizeof path, "%.100s.kind", where);
    qpc_status status = qpc_read_text(qpc_map_get(spec, "kind"), path, kind, sizeof kind, err);
    if (status != QPC_OK) return status;
    const cable_kind *chosen = NULL;
    for (int k = 0; k < CABLE_KINDS; k++)
        if (strcmp(kind, cable_kinds[k].name) == 0) chosen = &cable_kinds[k];
    if (chosen == NULL) {
        const char *near = qpc_nearest(kind, strlen(kind), kinds);
        return qpc_fail_at(err, QPC_ERR_INVALID, path,
                           "unknown way to lay a cable, \"%s\"%s%s%s (line, pulley, helix)", kind,
                           near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "");
    }
    status = qpc_map_check_keys(spec, where, chosen->keys, err);
    int64_t count = 0;
    snprintf(path, sizeof path, "%.100s.count", where);
    if (status == QPC_OK)
        status = qpc_read_int(qpc_map_get(spec, "count"), path, 1, CABLE_NODES_MAX, &count, err);
    if (status != QPC_OK) return status;
    double *x = qpc_alloc_array((size_t)count, 3 * sizeof *x);
    if (x == NULL) return out_of_memory(err);
    status = chosen->place(spec, where, count, x, err);
    if (status == QPC_OK) {
        const int64_t shape[2] = {count, 3};
        status = qpc_tensor_copy(QPC_F64, 2, shape, x, ret);
        if (status != QPC_OK) status = out_of_memory(err);
    }
    qpc_free(x);
    return status;
}

static qpc_status resolve_nodes(qpc_value *body, const char *body_where, qpc_error *err) {
    static const char *const keys[] = {"generate", NULL};
    const qpc_value *nodes = qpc_map_get(body, "nodes");
    if (nodes == NULL || nodes->kind != QPC_MAP) return QPC_OK;
    char where[WHERE_SIZE];
    snprintf(where, sizeof where, "%.100s.nodes", body_where);
    qpc_status status = qpc_map_check_keys(nodes, where, keys, err);
    if (status != QPC_OK) return status;
    const qpc_value *spec = qpc_map_get(nodes, "generate");
    if (spec == NULL)
        return qpc_fail_at(err, QPC_ERR_INVALID, where,
                           "wanted {generate: ...} or a list of points");
    qpc_value points = qpc_nil();
    snprintf(where, sizeof where, "%.90s.nodes.generate", body_where);
    status = generate_nodes(spec, where, &points, err);
    if (status != QPC_OK) return status;
    return qpc_map_set(body, "nodes", points) == QPC_OK ? QPC_OK : out_of_memory(err);
}

/// Number of nodes of a cable whose nodes are resolved; 0 if they are not of a known form.
static int64_t node_count(const qpc_value *body) {
    const qpc_value *nodes = qpc_map_get(body, "nodes");
    if (nodes == NULL) return 0;
    if (nodes->kind == QPC_LIST) {
        bool flat = nodes->list.count > 0 && nodes->list.items[0].kind != QPC_LIST;
        return flat ? nodes->list.count / 3 : nodes->list.count;
    }
    return nodes->kind == QPC_TENSOR && nodes->tensor.ndim > 0 ? nodes->tensor.shape[0] : 0;
}

/// {all, first, last} becomes a list with a mass per node.
static qpc_status resolve_mass(qpc_value *body, const char *body_where, qpc_error *err) {
    static const char *const keys[] = {"all", "first", "last", NULL};
    const qpc_value *mass = qpc_map_get(body, "mass");
    if (mass == NULL || mass->kind != QPC_MAP) return QPC_OK;
    char where[WHERE_SIZE];
    snprintf(where, sizeof where, "%.100s.mass", body_where);
    qpc_status status = qpc_map_check_keys(mass, where, keys, err);
    double all = 0, end[2] = {0, 0};
    // The server says which masses are right; here they only must be numbers.
    if (status == QPC_OK) status = read_number(mass, "all", where, -1e300, 1e300, &all, err);
    for (int k = 0; status == QPC_OK && k < 2; k++) {
        end[k] = all;
        if (qpc_map_get(mass, keys[1 + k]) != NULL)
            status = read_number(mass, keys[1 + k], where, -1e300, 1e300, &end[k], err);
    }
    if (status != QPC_OK) return status;
    int64_t count = node_count(body);
    if (count < 1)
        return qpc_fail_at(err, QPC_ERR_INVALID, where,
                           "{all, first, last} needs the cable's nodes to be given");
    qpc_value list = qpc_list();
    for (int64_t i = 0; status == QPC_OK && i < count; i++) {
        double m = i == 0 ? end[0] : i == count - 1 ? end[1] : all;
        status = qpc_list_push(&list, qpc_real(m));
    }
    if (status != QPC_OK) {
        qpc_value_fini(&list);
        return out_of_memory(err);
    }
    return qpc_map_set(body, "mass", list) == QPC_OK ? QPC_OK : out_of_memory(err);
}

// ---- whole scenes ----

qpc_status qpc_scene_resolve(qpc_value *scene, const char *base_dir, qpc_mesh_sink sink, void *user,
                             qpc_error *err) {
    if (scene->kind != QPC_MAP)
        return qpc_fail(err, QPC_ERR_INVALID, "a scene is a map {bodies: [...], ...}");
    resolver r = {.base_dir = base_dir, .sink = sink, .user = user, .err = err};
    // qpc_map_get gives a const view; the scene is the caller's own to change.
    qpc_value *bodies = NULL;
    for (int32_t i = 0; i < scene->map.count; i++)
        if (qpc_str_equal(&scene->map.pairs[i].key, "bodies")) bodies = &scene->map.pairs[i].value;
    if (bodies == NULL || bodies->kind != QPC_LIST) return QPC_OK; // the server says so
    for (int32_t i = 0; i < bodies->list.count; i++) {
        qpc_value *body = &bodies->list.items[i];
        if (body->kind != QPC_MAP) continue;
        char where[32];
        snprintf(where, sizeof where, "bodies[%d]", i);
        qpc_status status = resolve_nodes(body, where, err);
        if (status == QPC_OK) status = resolve_mass(body, where, err);
        if (status == QPC_OK) status = resolve_mesh(&r, body, where);
        if (status != QPC_OK) return status;
    }
    return QPC_OK;
}

qpc_status qpc_scene_read(const char *path, qpc_mesh_sink sink, void *user, qpc_value *ret,
                          qpc_error *err) {
    qpc_value scene = qpc_nil();
    qpc_status status = qpc_json_read_file(path, &scene, err);
    if (status != QPC_OK) return status;
    const char *slash = strrchr(path, '/');
    char *folder = NULL;
    if (slash != NULL) {
        size_t size = slash == path ? 1 : (size_t)(slash - path);
        folder = qpc_alloc(size + 1);
        if (folder == NULL) {
            qpc_value_fini(&scene);
            return out_of_memory(err);
        }
        memcpy(folder, path, size);
        folder[size] = '\0';
    }
    qpc_error why = {0};
    status = qpc_scene_resolve(&scene, folder, sink, user, &why);
    qpc_free(folder);
    if (status != QPC_OK) {
        qpc_value_fini(&scene);
        if (err != NULL) {
            qpc_fail(err, status, "%s: %s", path, why.message);
            memcpy(err->where, why.where, sizeof err->where);
        }
        return status;
    }
    *ret = scene;
    return QPC_OK;
}
