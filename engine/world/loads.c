/// Springs and dampers between points, and drag, implicit (docs/theory-joints.md, TJ7 to TJ9); pressure.c, damping.c and wind.c have the others. Runs on the worker in the world.
#include "engine/world/loads.h"

#include "base/mem.h"

#include <stdio.h>
#include <string.h>

enum { MOST_BLOCKS = 2 }; // blocks of unknowns that a point moves by: one of a node, two of a rigid body

typedef struct block {   // d(point) = M d(unknowns)
    int32_t dof;
    qpc_mat3 m;
} block;

// ---- making them ----

static qpc_status make_spring(qpc_world *w, const qpc_scene_def *def, const qpc_load_def *from, qpc_load *load, const char *where,
                              qpc_error *err) {
    qpc_joint *link = &load->link;
    qpc_status st = qpc_joint_reserve(link, 2, 0, err);
    if (st == QPC_OK) st = qpc_joint_make_points(w, link, def->points.data + from->first, 2, where, err);
    if (st != QPC_OK) return st;
    double length = v3_norm(v3_sub(qpc_joint_place(link, 0, w->x), qpc_joint_place(link, 1, w->x)));
    load->rest_length = from->rest_length < 0.0 ? length : from->rest_length;
    if (!(length > 0.0)) return qpc_fail_at(err, QPC_ERR_INVALID, where, "both points are at one place");
    bool free_one[2];
    for (int32_t p = 0; p < 2; p++) free_one[p] = link->body[p] >= 0 && w->row_dof[link->point[p].node[0]] >= 0;
    bool one = link->body[0] == link->body[1] && (w->bodies[link->body[0]].rigid >= 0 || link->point[0].node[0] == link->point[1].node[0]);
    if (free_one[0] && free_one[1] && one) return qpc_fail_at(err, QPC_ERR_INVALID, where, "both are points of one rigid body");
    if (free_one[0] && free_one[1] && w->spring_other != NULL)
        return qpc_fail_at(err, QPC_ERR_INVALID, where, "in worlds with cloth or soft bodies one end of a spring must be fixed, driven or of the world");
    return QPC_OK;
}

qpc_status qpc_loads_make(qpc_world *w, const qpc_scene_def *def, qpc_error *err) {
    w->loads = qpc_calloc((size_t)def->loads.count + 1, sizeof *w->loads);
    if (w->loads == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "no memory for %d loads", def->loads.count);
    qpc_status st = QPC_OK;
    for (int32_t i = 0; i < def->loads.count && st == QPC_OK; i++) {
        const qpc_load_def *from = &def->loads.data[i];
        qpc_load *load = &w->loads[w->load_count++];
        char where[QPC_PATH_SIZE];
        (void)snprintf(where, sizeof where, "loads[%d]", from->index);
        *load = (qpc_load){.kind = from->kind, .body = from->body, .stiffness = from->stiffness, .damping = from->damping, .per_mass = from->per_mass, .per_stiffness = from->per_stiffness, .pressure = from->pressure, .wind = from->wind};
        if (from->kind == QPC_LOAD_SPRING) st = make_spring(w, def, from, load, where, err);
        if (from->kind == QPC_LOAD_PRESSURE) st = qpc_pressure_make(w, load, where, err);
        if (from->kind == QPC_LOAD_WIND) st = qpc_loads_need_pushed(w, err);
        if (from->kind == QPC_LOAD_DAMPING) st = qpc_damping_check(w, load, def->dt, where, err);
    }
    return st;
}

qpc_status qpc_loads_need_pushed(qpc_world *w, qpc_error *err) {
    if (w->pushed == NULL && (w->pushed = qpc_calloc(3 * (size_t)w->block_count, sizeof *w->pushed)) == NULL)
        return qpc_fail(err, QPC_ERR_MEMORY, "no memory for loads on %d nodes", w->free_count);
    return QPC_OK;
}

void qpc_load_fini(qpc_load *load) {
    qpc_joint_fini(&load->link);
    qpc_pressed_fini(&load->pressed);
}

void qpc_loads_fini(qpc_world *w) {
    for (int32_t i = 0; i < w->load_count; i++) qpc_load_fini(&w->loads[i]);
    qpc_free(w->loads);
    qpc_free(w->pushed);
}

int32_t qpc_loads_band(const qpc_world *w) {
    int32_t band = 0;
    for (int32_t i = 0; i < w->load_count; i++) {
        const qpc_joint *link = &w->loads[i].link;
        int32_t low = INT32_MAX, high = 0;
        if (w->loads[i].kind != QPC_LOAD_SPRING) continue;
        for (int32_t p = 0; p < 2; p++) {
            int32_t node = link->point[p].node[0];
            if (node < 0 || w->row_dof[node] < 0) continue;
            int32_t last = w->row_dof[node] + (node < w->free_count ? 2 : 5);
            low = w->row_dof[node] < low ? w->row_dof[node] : low;
            high = last > high ? last : high;
        }
        band = high - low > band ? high - low : band;
    }
    return band;
}

// ---- springs ----

static double spring_length(const qpc_load *load, const double *x, qpc_vec3 *ret_n) {
    qpc_vec3 d = v3_sub(qpc_joint_place(&load->link, 0, x), qpc_joint_place(&load->link, 1, x));
    double length = v3_norm(d);
    *ret_n = length > 0.0 ? v3_scale(1.0 / length, d) : v3(1.0, 0.0, 0.0);
    return length;
}

double qpc_loads_energy(const qpc_world *w, const double *x) {
    double sum = 0.0;
    for (int32_t i = 0; i < w->load_count; i++) {
        const qpc_load *load = &w->loads[i];
        qpc_vec3 n;
        if (load->kind != QPC_LOAD_SPRING) continue;
        double past = spring_length(load, x, &n) - load->rest_length;
        sum += 0.5 * load->stiffness * past * past;
    }
    return sum;
}

/// How far a spring pulls its ends together at x, N; the damper by the change of length since the start of the motion.
static double pull(const qpc_world *w, const qpc_load *load, double h, const double *x, qpc_vec3 *ret_n) {
    qpc_vec3 unused;
    double length = spring_length(load, x, ret_n), start = spring_length(load, w->x, &unused);
    return load->stiffness * (length - load->rest_length) + load->damping * (length - start) / h;
}

/// The rigid body that a point is of, or -1.
static int32_t rigid_of(const qpc_world *w, const qpc_joint *link, int32_t p) { return link->body[p] < 0 ? -1 : w->bodies[link->body[p]].rigid; }

/// Arm of a point of a rigid body, half way through the motion on trial (TR13).
static qpc_vec3 arm_of(const qpc_world *w, const qpc_joint *link, int32_t p, int32_t rigid) {
    qpc_vec3 from = v3_sub(qpc_joint_place(link, p, w->x), w->pose[rigid].x);
    qpc_vec3 to = v3_sub(qpc_joint_place(link, p, w->x1), w->pose1[rigid].x);
    return v3_scale(0.5, v3_add(from, to));
}

static int32_t blocks_of(const qpc_world *w, const qpc_joint *link, int32_t p, block *out) {
    int32_t node = link->point[p].node[0], rigid = rigid_of(w, link, p);
    if (node < 0 || w->row_dof[node] < 0) return 0;
    out[0] = (block){w->row_dof[node], {{1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0}}};
    if (rigid < 0) return 1;
    qpc_vec3 r = arm_of(w, link, p, rigid); // w x r = -[r] w
    out[1] = (block){w->rigids[rigid].dof + 3, {{0.0, r.z, -r.y, -r.z, 0.0, r.x, r.y, -r.x, 0.0}}};
    return MOST_BLOCKS;
}

/// Velocity of a point by u: velocities of nodes (sign < 0), or a change of unknowns.
static qpc_vec3 point_velocity(const qpc_world *w, const qpc_joint *link, int32_t p, const double *u, double sign) {
    qpc_vec3 sum = v3(0.0, 0.0, 0.0);
    const qpc_row_point *point = &link->point[p];
    if (sign > 0.0) {
        block own[MOST_BLOCKS];
        int32_t count = blocks_of(w, link, p, own);
        for (int32_t k = 0; k < count; k++) {
            const double *m = own[k].m.m;
            qpc_vec3 du = v3_load(u + own[k].dof);
            for (int32_t a = 0; a < 3; a++) {
                double part = m[3 * a] * du.x + m[3 * a + 1] * du.y + m[3 * a + 2] * du.z;
                if (a == 0) sum.x += part;
                if (a == 1) sum.y += part;
                if (a == 2) sum.z += part;
            }
        }
        return sum;
    }
    for (int32_t k = 0; k < 4 && point->node[k] >= 0; k++) {
        int32_t node = point->node[k];
        bool known = node >= w->live_count || w->row_dof[node] < 0;
        sum = v3_madd(sum, point->weight[k], v3_load((known ? w->v_frame : u) + 3 * (int64_t)node));
    }
    return sum;
}

/// K += A' S B for the unknowns of two blocks, lower triangle.
static void add_block(qpc_linsys *K, const block *A, const block *B, double S[3][3], double sign) {
    for (int32_t i = 0; i < 3; i++)
        for (int32_t j = 0; j < 3; j++) {
            double sum = 0.0;
            if (A->dof + i < B->dof + j) continue;
            for (int32_t a = 0; a < 3; a++)
                for (int32_t c = 0; c < 3; c++) sum += A->m.m[3 * a + i] * S[a][c] * B->m.m[3 * c + j];
            *qpc_linsys_entry(K, A->dof + i, B->dof + j) += sign * sum;
        }
}

static void add_spring(qpc_world *w, const qpc_load *load, double h, const double *x, const double *u, double sign) {
    qpc_vec3 n;
    double force = pull(w, load, h, x, &n), length = spring_length(load, x, &n), S[3][3], m[3] = {n.x, n.y, n.z};
    double across = length > load->rest_length ? load->stiffness * (1.0 - load->rest_length / length) : 0.0; // clamped (T4)
    for (int32_t a = 0; a < 3; a++)
        for (int32_t c = 0; c < 3; c++) {
            double along = load->stiffness + load->damping / h - across;
            S[a][c] = h * h * (along * m[a] * m[c] + (a == c ? across : 0.0));
        }
    qpc_vec3 d = v3_sub(point_velocity(w, &load->link, 0, u, sign), point_velocity(w, &load->link, 1, u, sign));
    double add[3], rate[3] = {d.x, d.y, d.z};
    for (int32_t a = 0; a < 3; a++) {
        add[a] = -h * force * m[a]; // impulse on the first point
        add[a] += sign * (S[a][0] * rate[0] + S[a][1] * rate[1] + S[a][2] * rate[2]);
    }
    block of[2 * MOST_BLOCKS];
    int32_t count = blocks_of(w, &load->link, 0, of), all = count + blocks_of(w, &load->link, 1, of + count);
    for (int32_t i = 0; i < all; i++) {
        double side = i < count ? 1.0 : -1.0;
        for (int32_t a = 0; a < 3; a++)
            for (int32_t c = 0; c < 3; c++) w->b[of[i].dof + a] += side * of[i].m.m[3 * c + a] * add[c];
        for (int32_t k = 0; k < all; k++) add_block(&w->sys, &of[i], &of[k], S, (i < count) == (k < count) ? 1.0 : -1.0);
    }
}

// ---- drag ----

static bool is_on(const qpc_load *load, int32_t body) { return load->body < 0 || load->body == body; }

/// Of one rigid body: K += h C, b -= h C times its velocities.
static void drag_rigid(qpc_world *w, const qpc_load *load, int32_t rigid, double h) {
    const qpc_rigid_part *part = &w->rigids[rigid];
    const qpc_rigid_state *now = &w->pose[rigid];
    qpc_mat3 tensor = qpc_rigid_tensor(&part->inertia, now->q);
    double c = load->damping + load->per_mass * part->inertia.mass, v[3] = {now->v.x, now->v.y, now->v.z};
    double turning[3] = {now->w.x, now->w.y, now->w.z};
    for (int32_t a = 0; a < 3; a++) {
        *qpc_linsys_entry(&w->sys, part->dof + a, part->dof + a) += h * c;
        w->b[part->dof + a] -= h * c * v[a];
        for (int32_t k = 0; k < 3; k++) {
            double value = h * load->per_mass * tensor.m[3 * a + k];
            if (k <= a) *qpc_linsys_entry(&w->sys, part->dof + 3 + a, part->dof + 3 + k) += value;
            w->b[part->dof + 3 + a] -= value * turning[k];
        }
    }
}

static void add_drag(qpc_world *w, const qpc_load *load, double h) {
    for (int32_t k = 0; k < w->body_count; k++) {
        const qpc_body *body = &w->bodies[k];
        if (!is_on(load, k)) continue;
        if (body->motion == QPC_RIGID) drag_rigid(w, load, body->rigid, h);
        if (body->motion != QPC_DYNAMIC) continue;
        for (int32_t i = 3 * body->first_node; i < 3 * (body->first_node + body->node_count); i++) {
            double c = load->damping + load->per_mass * w->mass[i / 3];
            *qpc_linsys_entry(&w->sys, i, i) += h * c;
            w->b[i] -= h * c * w->v[i];
        }
    }
}

void qpc_loads_push(qpc_world *w) {
    if (w->pushed == NULL) return;
    memset(w->pushed, 0, 3 * (size_t)w->block_count * sizeof *w->pushed);
    for (int32_t i = 0; i < w->load_count; i++) {
        if (w->loads[i].kind == QPC_LOAD_PRESSURE) qpc_pressure_push(w, &w->loads[i]);
        if (w->loads[i].kind == QPC_LOAD_WIND) qpc_wind_force(w, &w->loads[i], NULL, w->pushed);
    }
}

void qpc_loads_force(const qpc_world *w, const double *x1, const double *dv, double *f) {
    for (int32_t i = 0; i < w->load_count; i++) {
        if (w->loads[i].kind == QPC_LOAD_PRESSURE) qpc_pressure_force(w, &w->loads[i], x1, f);
        if (w->loads[i].kind == QPC_LOAD_WIND) qpc_wind_force(w, &w->loads[i], dv, f);
    }
}

void qpc_loads_linearise(qpc_world *w, double h, const double *x, const double *u, double sign) {
    qpc_loads_push(w);
    for (int32_t i = 0; i < w->load_count; i++) {
        if (w->loads[i].kind == QPC_LOAD_SPRING) add_spring(w, &w->loads[i], h, x, u, sign);
        if (w->loads[i].kind == QPC_LOAD_DRAG) add_drag(w, &w->loads[i], h);
        if (w->loads[i].kind == QPC_LOAD_DAMPING) qpc_damping_linearise(w, &w->loads[i], h);
        if (w->loads[i].kind == QPC_LOAD_PRESSURE) qpc_pressure_linearise(w, &w->loads[i], h, x, u, sign);
        if (w->loads[i].kind == QPC_LOAD_WIND) qpc_wind_linearise(w, &w->loads[i], h, u, sign);
    }
}

/// h/2 v+'C v+ of drag on a rigid body.
static double drag_of_rigid(const qpc_world *w, const qpc_load *load, int32_t rigid, double h, const double *dv) {
    const qpc_rigid_part *part = &w->rigids[rigid];
    qpc_rigid_state kick = w->pose[rigid];
    kick.v = v3_add(kick.v, v3_load(dv + part->dof));
    kick.w = v3_add(kick.w, v3_load(dv + part->dof + 3));
    return h * (load->per_mass * qpc_rigid_energy(&part->inertia, &kick) + 0.5 * load->damping * v3_norm2(kick.v));
}

double qpc_loads_potential(const qpc_world *w, double h, const double *dv) {
    double sum = 0.0;
    for (int32_t i = 0; i < w->load_count; i++) {
        const qpc_load *load = &w->loads[i];
        if (load->kind == QPC_LOAD_SPRING) {
            qpc_vec3 n;
            double change = spring_length(load, w->x1, &n) - spring_length(load, w->x, &n);
            sum += 0.5 * load->damping * change * change / h;
            continue;
        }
        if (load->kind == QPC_LOAD_DAMPING) {
            sum += qpc_damping_potential(w, load, h, dv);
            continue;
        }
        if (load->kind == QPC_LOAD_PRESSURE) {
            sum -= qpc_pressure_work(w, load, h);
            continue;
        }
        if (load->kind == QPC_LOAD_WIND) {
            sum += qpc_wind_potential(w, load, h, dv);
            continue;
        }
        for (int32_t k = 0; k < w->body_count; k++) {
            const qpc_body *body = &w->bodies[k];
            if (!is_on(load, k)) continue;
            if (body->motion == QPC_RIGID) sum += drag_of_rigid(w, load, body->rigid, h, dv);
            if (body->motion != QPC_DYNAMIC) continue;
            for (int32_t j = body->first_node; j < body->first_node + body->node_count; j++) {
                qpc_vec3 v = v3_add(v3_load(w->v + 3 * (int64_t)j), v3_load(dv + 3 * (int64_t)j));
                sum += 0.5 * h * (load->damping + load->per_mass * w->mass[j]) * v3_norm2(v);
            }
        }
    }
    return sum;
}

void qpc_loads_add_work(qpc_world *w, qpc_trial *t) {
    for (int32_t i = 0; i < w->load_count; i++) {
        const qpc_load *load = &w->loads[i];
        qpc_vec3 n;
        if (load->kind == QPC_LOAD_PRESSURE) qpc_trial_credit(t, load->body, qpc_pressure_work(w, load, t->h));
        if (load->kind == QPC_LOAD_WIND) qpc_trial_credit(t, load->body, qpc_wind_work(w, load, w->dv));
        if (load->kind != QPC_LOAD_SPRING) continue;
        double impulse = t->h * pull(w, load, t->h, w->x1, &n);
        for (int32_t p = 0; p < 2; p++) {
            const qpc_row_point *point = &load->link.point[p];
            for (int32_t k = 0; k < 4 && point->node[k] >= 0; k++) { // what holds the point holds against the pull
                int32_t node = point->node[k], pin = node < w->free_count ? w->pin_of[node] : -1;
                qpc_vec3 held = v3_scale((p == 0 ? impulse : -impulse) * point->weight[k], n);
                if (node >= w->live_count) qpc_trial_credit(t, load->link.body[1 - p], v3_dot(held, v3_load(w->v_frame + 3 * (int64_t)node)));
                if (pin >= 0) v3_store(w->reactions + 3 * (int64_t)pin, v3_add(v3_load(w->reactions + 3 * (int64_t)pin), held));
            }
        }
    }
}
