/// Soft bodies of a world; see softs.h. Everything is allocated with the world.
#include "engine/world/softs.h"

#include "engine/world/world.h"

#include <math.h>
#include <string.h>

static qpc_status fill(qpc_world *w, const qpc_body_def *def, qpc_body *body, int32_t *order, qpc_error *err) {
    const int32_t *node = qpc_mesh_elements(def->tets);
    qpc_softs *s = &w->softs;
    qpc_status st = qpc_tets_order(node, def->tet_rest.count, order, err);
    for (int32_t k = 0; k < def->tet_rest.count && st == QPC_OK; k++) {
        int64_t from = order[k], to = body->first_tet + k;
        for (int a = 0; a < 4; a++) s->node[4 * to + a] = body->first_node + node[4 * from + a];
        memcpy(s->inverse + 9 * to, def->tet_rest.inverse + 9 * from, 9 * sizeof *s->inverse);
        s->volume[to] = def->tet_rest.volume[from];
        s->mu[to] = def->tet_mu;
        s->lambda[to] = def->tet_lambda;
        s->material[to] = (uint8_t)def->tet_material;
    }
    return st;
}

qpc_status qpc_softs_make(qpc_world *w, const qpc_scene_def *def, qpc_error *err) {
    int64_t count = 0;
    for (int32_t i = 0; i < def->bodies.count; i++) {
        w->bodies[i].first_tet = (int32_t)count;
        w->bodies[i].tet_count = def->bodies.data[i].tet_rest.count;
        count += w->bodies[i].tet_count;
        if (count > INT32_MAX / 8) return qpc_fail(err, QPC_ERR_LIMIT, "more than %d tetrahedra", INT32_MAX / 8);
    }
    if (count == 0) return QPC_OK;
    size_t n = (size_t)count;
    qpc_softs *s = &w->softs;
    s->node = qpc_alloc_array(n, 4 * sizeof *s->node);
    s->place = qpc_calloc(n, 6 * sizeof *s->place);
    s->inverse = qpc_alloc_array(n, 9 * sizeof *s->inverse);
    s->volume = qpc_alloc_array(n, sizeof *s->volume);
    s->mu = qpc_alloc_array(n, sizeof *s->mu);
    s->lambda = qpc_alloc_array(n, sizeof *s->lambda);
    s->material = qpc_alloc_array(n, sizeof *s->material);
    s->seen = qpc_alloc_array(3 * (size_t)w->node_count + 1, sizeof *s->seen);
    int32_t *order = qpc_alloc_array(n, sizeof *order);
    qpc_status st = QPC_OK;
    if (s->node == NULL || s->place == NULL || s->inverse == NULL || s->volume == NULL || s->mu == NULL || s->lambda == NULL ||
        s->material == NULL || s->seen == NULL || order == NULL)
        st = qpc_fail(err, QPC_ERR_MEMORY, "no memory for %lld tetrahedra", (long long)count);
    for (int32_t i = 0; i < def->bodies.count && st == QPC_OK; i++)
        if (w->bodies[i].tet_count > 0) st = fill(w, &def->bodies.data[i], &w->bodies[i], order, err);
    qpc_free(order);
    if (st != QPC_OK) return st;
    s->seen[0] = NAN;
    s->tets = (qpc_tets){.count = (int32_t)count, .node = s->node, .inverse = s->inverse, .volume = s->volume, .mu = s->mu,
                         .lambda = s->lambda, .material = s->material, .place = s->place};
    return QPC_OK;
}

void qpc_softs_mark_inside(const qpc_world *w, uint8_t *inside) {
    memset(inside, 0, (size_t)w->block_count);
    for (int32_t i = 0; i < w->body_count; i++) {
        const qpc_body *b = &w->bodies[i];
        if (b->tet_count == 0) continue;
        memset(inside + b->first_node, 1, (size_t)b->node_count);
        const int32_t *corner = qpc_mesh_elements(b->mesh);
        for (int64_t k = 0; k < 3 * qpc_mesh_element_count(b->mesh); k++) inside[b->first_node + corner[k]] = 0;
    }
}

void qpc_softs_fini(qpc_world *w) {
    qpc_softs *s = &w->softs;
    void *const all[] = {s->node, s->place, s->inverse, s->volume, s->mu, s->lambda, s->material, s->seen};
    for (size_t k = 0; k < sizeof all / sizeof all[0]; k++) qpc_free(all[k]);
}

size_t qpc_softs_memory(const qpc_world *w) {
    if (w->softs.tets.count == 0) return 0;
    return (size_t)w->softs.tets.count * (10 * sizeof(int32_t) + 12 * sizeof(double) + 1) + (3 * (size_t)w->node_count + 1) * sizeof(double);
}

double qpc_softs_energy(const qpc_world *w, const double *x) {
    double *seen = w->softs.seen;
    size_t size = 3 * (size_t)w->node_count * sizeof *x;
    if (isnan(seen[0]) || memcmp(seen + 1, x, size) != 0) {
        seen[0] = qpc_tets_energy(&w->softs.tets, x);
        memcpy(seen + 1, x, size);
    }
    return seen[0];
}

void qpc_softs_slacken(qpc_world *w, int32_t body) {
    const qpc_body *b = &w->bodies[body];
    for (int32_t t = b->first_tet; t < b->first_tet + b->tet_count; t++) w->softs.mu[t] = w->softs.lambda[t] = 0.0;
    if (w->softs.seen != NULL) w->softs.seen[0] = NAN;
}

qpc_tets qpc_softs_of(const qpc_world *w, int32_t body) {
    qpc_tets part = w->softs.tets;
    int64_t first = w->bodies[body].first_tet;
    part.count = w->bodies[body].tet_count;
    if (part.count == 0) return part;
    part.node += 4 * first;
    part.inverse += 9 * first;
    part.volume += first;
    part.mu += first;
    part.lambda += first;
    part.material += first;
    part.place += 6 * first;
    return part;
}

double qpc_softs_stiffest(const qpc_world *w, int32_t body) {
    qpc_tets tets = qpc_softs_of(w, body);
    double most = 0.0;
    for (int64_t e = 0; e < tets.count; e++)
        for (int i = 1; i < 4; i++) {
            int32_t node = tets.node[4 * e + i];
            if (w->row_dof[node] < 0) continue;
            double slope = v3_norm2(v3_load(tets.inverse + 9 * e + 3 * (i - 1)));
            most = fmax(most, tets.volume[e] * (tets.lambda[e] + 2.0 * tets.mu[e]) * slope / w->mass[node]);
        }
    return most;
}
