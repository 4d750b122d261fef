/// Coulomb friction of a step: tangent rows of the contacts that have a law, impulses carried from solve to solve by the
/// keys of contacts, and what they say afterwards (docs/theory-friction.md).
///
/// Runs on the worker in the world.
#include "engine/world/attempt.h"
#include "engine/world/obstacles.h"

#include <string.h>

void qpc_rub_fini(qpc_rub *rub) {
    qpc_array_fini(&rub->row);
    qpc_array_fini(&rub->start);
    qpc_array_fini(&rub->column);
    qpc_array_fini(&rub->mu);
    qpc_array_fini(&rub->value);
    qpc_array_fini(&rub->u0);
    qpc_array_fini(&rub->beta);
    qpc_array_fini(&rub->tangent);
    qpc_array_fini(&rub->lawless);
}

qpc_contact_law qpc_world_law(const qpc_world *w, const qpc_contact *c) {
    return w->laws[w->bodies[c->surface[0]].material * w->material_count + w->bodies[c->surface[1]].material];
}

/// Two unit vectors normal to n and to each other, the same for the same n (Duff et al. 2017).
static void tangents_of(qpc_vec3 n, qpc_vec3 ret[2]) {
    double sign = n.z >= 0.0 ? 1.0 : -1.0, a = -1.0 / (sign + n.z), b = n.x * n.y * a;
    ret[0] = v3(1.0 + sign * n.x * n.x * a, sign * b, -sign * n.x);
    ret[1] = v3(b, sign + n.y * n.y * a, -n.y);
}

/// Where the surfaces of the two sides touch, a part of the separation from the nodes along n: friction acts there on both.
static qpc_vec3 reach_of(const qpc_world *w, const qpc_contact *c, int k) {
    int split = qpc_contact_split(c);
    double radius[2] = {w->bodies[c->surface[0]].radius, w->bodies[c->surface[1]].radius}, sum = radius[0] + radius[1];
    double part = sum > 0.0 ? c->separation / sum : 0.0;
    return v3_scale(k < split ? -part * radius[0] : part * radius[1], c->n);
}

qpc_vec3 qpc_step_arm(const qpc_world *w, const qpc_contact *c, int k) {
    return v3_add(v3_load(w->arm + 3 * c->node[k]), reach_of(w, c, k));
}

typedef struct turning { // of one rigid body in a tangent row
    int32_t dof;
    qpc_vec3 arm; // weighted
} turning;

/// Turning of the rigid bodies in a contact; vertices of one are gathered.
static int32_t gather_turning(const qpc_world *w, const qpc_contact *c, turning ret[4]) {
    int32_t count = 0;
    for (int k = 0; k < QPC_CONTACT_NODES; k++) {
        int32_t d = w->row_turn[c->node[k]], at = 0;
        if (d < 0 || c->weight[k] == 0.0) continue;
        while (at < count && ret[at].dof != d) at++;
        if (at == count) ret[count++] = (turning){d, {0.0, 0.0, 0.0}};
        ret[at].arm = v3_madd(ret[at].arm, c->weight[k], qpc_step_arm(w, c, k));
    }
    return count;
}

int32_t qpc_step_entries(const qpc_world *w, const qpc_contact *c, qpc_vec3 d, int32_t *column, double *value) {
    int32_t dof[4], count = 0, n = 0;
    double weight[4];
    turning turns[4];
    int32_t turn_count = w->rigid_count > 0 ? gather_turning(w, c, turns) : 0;
    for (int k = 0; k < QPC_CONTACT_NODES; k++) {
        if (c->weight[k] == 0.0) continue;
        int32_t first = w->row_dof[c->node[k]], at = count;
        if (first < 0) continue;
        for (; at > 0 && dof[at - 1] > first; at--) {
            dof[at] = dof[at - 1];
            weight[at] = weight[at - 1];
        }
        if (at > 0 && dof[at - 1] == first) { // a node or body twice: put back what moved
            weight[at - 1] += c->weight[k];
            for (int32_t i = at; i < count; i++) {
                dof[i] = dof[i + 1];
                weight[i] = weight[i + 1];
            }
            continue;
        }
        dof[at] = first;
        weight[at] = c->weight[k];
        count++;
    }
    const double part[3] = {d.x, d.y, d.z};
    for (int32_t i = 0; i < count; i++) {
        for (int32_t a = 0; a < 3; a++) {
            if (part[a] == 0.0) continue;
            column[n] = dof[i] + a;
            value[n++] = weight[i] * part[a];
        }
        for (int32_t k = 0; k < turn_count; k++) { // behind the body's own motion
            if (turns[k].dof != dof[i] + 3) continue;
            qpc_vec3 moment = v3_cross(turns[k].arm, d);
            const double about[3] = {moment.x, moment.y, moment.z};
            for (int32_t a = 0; a < 3; a++) {
                column[n] = turns[k].dof + a;
                value[n++] = about[a];
            }
        }
    }
    return n;
}

/// One tangent row. Room for QPC_CONTACT_ENTRIES is there.
static void push_tangent(qpc_world *w, const qpc_contact *c, qpc_vec3 t) {
    qpc_rub *rub = &w->rub;
    double u0 = 0.0;
    for (int k = 0; k < QPC_CONTACT_NODES; k++)
        if (c->weight[k] != 0.0) u0 += c->weight[k] * v3_dot(t, v3_load(w->v_frame + 3 * c->node[k]));
    u0 -= v3_dot(t, qpc_obstacle_spin(w, c));
    for (int k = 0; k < QPC_CONTACT_NODES && w->rigid_count > 0; k++) { // what a body turned by already moves its surface, too
        int side = k < qpc_contact_split(c) ? 0 : 1;
        if (w->row_turn[c->node[k]] < 0 || c->weight[k] == 0.0) continue;
        const qpc_rigid_state *now = &w->pose[w->bodies[c->surface[side]].rigid];
        u0 += c->weight[k] * v3_dot(t, v3_cross(now->w, reach_of(w, c, k)));
    }
    int32_t n = qpc_step_entries(w, c, t, rub->column.data + rub->column.count, rub->value.data + rub->value.count);
    rub->column.count += n;
    rub->value.count += n;
    rub->start.data[rub->start.count++] = rub->column.count;
    rub->u0.data[rub->u0.count++] = u0;
}

/// Friction impulse of the contact's key in the last solve, on the first side.
static qpc_vec3 kept_impulse(const qpc_world *w, uint64_t key) {
    int32_t low = 0, high = w->kept.count;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (w->kept.data[middle].key < key) low = middle + 1;
        else high = middle;
    }
    return low < w->kept.count && w->kept.data[low].key == key ? w->kept.data[low].impulse : v3(0.0, 0.0, 0.0);
}

qpc_status qpc_step_make_friction(qpc_world *w, double h, const bool *left_out, qpc_friction *ret, qpc_error *err) {
    qpc_rub *rub = &w->rub;
    const qpc_rows *rows = &w->rows;
    int64_t most = rows->m;
    *ret = (qpc_friction){0};
    rub->row.count = rub->start.count = rub->column.count = rub->mu.count = 0;
    rub->value.count = rub->u0.count = rub->beta.count = rub->tangent.count = 0;
    if (!w->rubs || w->solver.friction == QPC_FRICTION_OFF || most == 0) return QPC_OK;
    if (!qpc_array_reserve(&rub->row, most) || !qpc_array_reserve(&rub->mu, most) || !qpc_array_reserve(&rub->start, 2 * most + 1) ||
        !qpc_array_reserve(&rub->u0, 2 * most) || !qpc_array_reserve(&rub->beta, 2 * most) ||
        !qpc_array_reserve(&rub->tangent, 2 * most) || !qpc_array_reserve(&rub->column, 2 * QPC_CONTACT_ENTRIES * most) ||
        !qpc_array_reserve(&rub->value, 2 * QPC_CONTACT_ENTRIES * most))
        return qpc_fail(err, QPC_ERR_MEMORY, "no memory for the friction of %lld rows", (long long)most);
    rub->start.data[rub->start.count++] = 0;
    for (int32_t i = 0; i < rows->m; i++) {
        if (rows->kind[i] != QPC_ROW_CONTACT || (left_out != NULL && left_out[i])) continue;
        const qpc_contact *c = &w->held.data[rows->source[i]];
        double mu = qpc_world_law(w, c).friction;
        if (!(mu > 0.0)) continue;
        qpc_vec3 t[2], impulse = v3_scale(h / w->warm_h, kept_impulse(w, c->key));
        tangents_of(c->n, t);
        rub->row.data[rub->row.count++] = i;
        rub->mu.data[rub->mu.count++] = mu;
        for (int k = 0; k < 2; k++) {
            push_tangent(w, c, t[k]);
            rub->tangent.data[rub->tangent.count++] = t[k];
            rub->beta.data[rub->beta.count++] = rows->lambda[i] > 0.0 ? -v3_dot(t[k], impulse) : 0.0;
        }
    }
    *ret = (qpc_friction){rub->row.count, rub->row.data, rub->mu.data, rub->start.data, rub->column.data, rub->value.data, rub->u0.data};
    return QPC_OK;
}

int32_t qpc_rub_of_row(const qpc_rub *rub, int32_t row) {
    int32_t low = 0, high = rub->row.count; // in the order of rows
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (rub->row.data[middle] < row) low = middle + 1;
        else high = middle;
    }
    return low < rub->row.count && rub->row.data[low] == row ? low : -1;
}

bool qpc_rub_is_whole(const qpc_world *w) {
    const qpc_rows *rows = &w->rows;
    if (!w->rubs || w->solver.friction == QPC_FRICTION_OFF) return true;
    for (int32_t i = 0; i < rows->m; i++) {
        if (rows->kind[i] != QPC_ROW_CONTACT || !(rows->lambda[i] > 0.0) || qpc_rub_of_row(&w->rub, i) >= 0) continue;
        if (qpc_world_law(w, &w->held.data[rows->source[i]]).friction > 0.0) return false;
    }
    return true;
}

qpc_status qpc_rub_complete(qpc_world *w, double h, qpc_error *err) {
    qpc_rub *rub = &w->rub;
    qpc_friction all;
    int32_t count = rub->row.count;
    qpc_arena_mark mark = qpc_arena_get_mark(&w->arena);
    int32_t *row = qpc_arena_array(&w->arena, (size_t)count, sizeof *row);
    double *beta = qpc_arena_array(&w->arena, 2 * (size_t)count, sizeof *beta);
    if (row == NULL || beta == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "no memory for the friction of %d contacts", count);
    for (int32_t k = 0; k < count; k++) row[k] = rub->row.data[k];
    for (int32_t k = 0; k < 2 * count; k++) beta[k] = rub->beta.data[k];
    qpc_status st = qpc_step_make_friction(w, h, NULL, &all, err);
    for (int32_t k = 0, old = 0; st == QPC_OK && k < rub->row.count; k++) { // both in the order of rows
        bool known = old < count && row[old] == rub->row.data[k];
        rub->beta.data[2 * k] = known ? beta[2 * old] : 0.0;
        rub->beta.data[2 * k + 1] = known ? beta[2 * old + 1] : 0.0;
        old += known;
    }
    qpc_arena_rewind(&w->arena, mark);
    return st;
}

/// Impulse of friction on the first side of contact k of the rub, N s.
qpc_vec3 qpc_rub_impulse(const qpc_rub *rub, int32_t k) {
    return v3_add(v3_scale(-rub->beta.data[2 * k], rub->tangent.data[2 * k]),
                  v3_scale(-rub->beta.data[2 * k + 1], rub->tangent.data[2 * k + 1]));
}

qpc_status qpc_step_keep_friction(qpc_world *w, qpc_error *err) {
    const qpc_rub *rub = &w->rub;
    qpc_arena_mark mark = qpc_arena_get_mark(&w->arena);
    qpc_keyed *list = qpc_arena_array(&w->arena, 2 * (size_t)rub->row.count, sizeof *list);
    if (list == NULL || !qpc_array_reserve(&w->kept, (int64_t)rub->row.count))
        return qpc_fail(err, QPC_ERR_MEMORY, "no memory for the friction of %d contacts", rub->row.count);
    int32_t rubbing = 0, count = 0;
    for (int32_t k = 0; k < rub->row.count; k++)
        if (v3_norm2(qpc_rub_impulse(rub, k)) != 0.0) list[rubbing++] = (qpc_keyed){w->rows.key[rub->row.data[k]], k};
    list = qpc_keyed_sort(list, list + rub->row.count, rubbing);
    for (int32_t i = 0; i < rubbing; i++) { // rows of one pair are summed up
        qpc_vec3 impulse = qpc_rub_impulse(rub, list[i].item);
        if (i > 0 && list[i].key == list[i - 1].key)
            w->kept.data[count - 1].impulse = v3_add(w->kept.data[count - 1].impulse, impulse);
        else
            w->kept.data[count++] = (qpc_kept_friction){list[i].key, impulse};
    }
    qpc_arena_rewind(&w->arena, mark);
    w->kept.count = count;
    return QPC_OK;
}

void qpc_step_drop_friction(qpc_world *w) {
    for (int32_t k = 0; k < w->rub.beta.count; k++) w->rub.beta.data[k] = 0.0;
}

/// sum beta'(T dv + u0): friction at the impulses that stand, as a potential of the tangential motion.
double qpc_rub_potential(const qpc_rub *rub, const double *dv) {
    double sum = 0.0;
    for (int32_t r = 0; r < rub->beta.count; r++) {
        if (rub->beta.data[r] == 0.0) continue;
        double u = rub->u0.data[r];
        for (int32_t k = rub->start.data[r]; k < rub->start.data[r + 1]; k++) u += rub->value.data[k] * dv[rub->column.data[k]];
        sum += rub->beta.data[r] * u;
    }
    return sum;
}

/// b - T'beta into out (n): the right-hand side that dv and lambda answer.
void qpc_rub_load(const qpc_rub *rub, int32_t n, const double *b, double *out) {
    memcpy(out, b, (size_t)n * sizeof *out);
    for (int32_t r = 0; r < rub->beta.count; r++)
        for (int32_t k = rub->start.data[r]; k < rub->start.data[r + 1]; k++) out[rub->column.data[k]] -= rub->beta.data[r] * rub->value.data[k];
}
