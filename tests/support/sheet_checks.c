/// Detection between surfaces against brute force; see sheet_checks.h. Distances and the last word
/// on touching are the independent checker's.
#include "tests/support/sheet_checks.h"

#include "engine/collision/ccd.h"
#include "engine/geometry/topology.h"
#include "tests/support/check.h"

#include <stdlib.h>

void sheet_run_start(sheet_run *r, const deforming *d) {
    qpc_error err = {0};
    double none[3] = {0};
    qpc_checker_body body = {.node_count = 1, .radius = 1, .moves = true};
    assert_ok(qpc_detector_create(d->surface, d->count, d->x0, d->nodes, 1 << 24, &r->det, &err),
              &err);
    assert_ok(qpc_checker_create(&body, 1, none, 1, &r->exact, &err), &err);
    if (r->reach == 0) r->reach = 1.25;
    if (r->factor == 0) r->factor = 0.95;
}

void sheet_run_end(sheet_run *r) {
    qpc_detector_destroy(r->det);
    qpc_checker_destroy(r->exact);
    qpc_array_fini(&r->contacts);
    qpc_array_fini(&r->before);
    *r = (sheet_run){0};
}

static void points(const double *x, const qpc_contact *c, double p[12]) {
    for (int k = 0; k < 4; k++) memcpy(p + 3 * k, x + 3 * (int64_t)c->node[k], 3 * sizeof *p);
}

static double distance_of(const double *x, const qpc_contact *c) {
    double p[12];
    points(x, c, p);
    return c->kind == QPC_CONTACT_VT ? qpc_checker_distance_vt(p) : qpc_checker_distance_ee(p);
}

/// Boxes of the two features over the motion are farther apart than s.
static bool far(const double *x0, const double *x1, const qpc_contact *c, double s) {
    int split = c->kind == QPC_CONTACT_VT ? 1 : 2;
    for (int d = 0; d < 3; d++) {
        double lo[2] = {INFINITY, INFINITY}, hi[2] = {-INFINITY, -INFINITY};
        for (int k = 0; k < 4; k++) {
            int side = k >= split;
            double a = x0[3 * (int64_t)c->node[k] + d], b = x1[3 * (int64_t)c->node[k] + d];
            lo[side] = fmin(lo[side], fmin(a, b));
            hi[side] = fmax(hi[side], fmax(a, b));
        }
        if (lo[0] > hi[1] + s || lo[1] > hi[0] + s) return true;
    }
    return false;
}

/// Nodes with weight, sorted, filled up with -1. Four of them may be paired in several ways: twice
/// the number then, one more on the side that the first is not on.
static void support(const qpc_contact *c, int32_t ret[4]) {
    int n = 0, side[4];
    for (int k = 0; k < 4; k++) {
        ret[k] = -1;
        if (c->weight[k] == 0) continue;
        int i = 0; // a triangle may have a vertex twice
        while (i < n && ret[i] != c->node[k]) i++;
        if (i < n) continue;
        for (i = n++; i > 0 && ret[i - 1] > c->node[k]; i--)
            ret[i] = ret[i - 1], side[i] = side[i - 1];
        ret[i] = c->node[k];
        side[i] = k >= (c->kind == QPC_CONTACT_VT ? 1 : 2);
    }
    for (int i = 3; i >= 0 && n == 4; i--) ret[i] = 2 * ret[i] + (side[i] != side[0]);
}

static int by_support(const void *a, const void *b) {
    int32_t p[4], q[4];
    support(a, p);
    support(b, q);
    return memcmp(p, q, sizeof p);
}

static qpc_contact *sorted(const qpc_contacts *c) {
    qpc_contact *s = calloc((size_t)c->count + 1, sizeof *s);
    if (s == NULL) abort();
    if (c->count > 0) memcpy(s, c->data, (size_t)c->count * sizeof *s);
    qsort(s, (size_t)c->count, sizeof *s, by_support);
    return s;
}

static void check_form(const deforming *d, const qpc_contacts *all, const double *x, bool motion) {
    for (int32_t i = 0; i < all->count; i++) {
        const qpc_contact *c = &all->data[i];
        double side[2] = {0, 0};
        int split = c->kind == QPC_CONTACT_VT ? 1 : 2;
        assert_true(i == 0 || c->key > all->data[i - 1].key);
        for (int k = 0; k < 4; k++) {
            int s = k >= split;
            assert_true(s == 0 ? c->weight[k] >= 0 : c->weight[k] <= 0);
            side[s] += c->weight[k];
            const qpc_surface *of = &d->surface[c->surface[s]];
            assert_true(c->node[k] >= of->first_node &&
                        c->node[k] < of->first_node + of->node_count);
        }
        assert_near(side[0], 1, 1e-12);
        assert_near(side[1], -1, 1e-12);
        assert_near(v3_norm(c->n), 1, 1e-12);
        if (motion) continue;
        qpc_vec3 sum = v3(0, 0, 0);
        for (int k = 0; k < 4; k++) sum = v3_madd(sum, c->weight[k], v3_load(x + 3 * c->node[k]));
        double size = 0;
        for (int k = 1; k < 4; k++)
            size = fmax(size,
                        v3_norm(v3_sub(v3_load(x + 3 * c->node[k]), v3_load(x + 3 * c->node[0]))));
        assert_near(v3_norm(sum), c->distance, 1e-9 * size);
        assert_near(fabs(v3_dot(sum, c->n)), c->distance, 1e-9 * size);
    }
}

// ---- proximity ----

typedef struct near_user {
    sheet_run *run;
    double gap;
    double *best;         // (nodes x surfaces) nearest triangle of a surface to a dynamic vertex
    qpc_contact *nearest; // (nodes x surfaces) that pair
    int64_t missed;       // edge pairs inside reach of which both sides' cones hold, and no contact
} near_user;

static void near_pair(const deforming *d, qpc_contact *c, void *user) {
    near_user *u = user;
    if (far(d->x0, d->x0, c, 2 * c->separation)) return;
    double distance = distance_of(d->x0, c);
    if (c->flags & QPC_CONTACT_NEAR_SELF) return;
    u->gap = fmin(u->gap, distance / c->separation);
    if (c->kind != QPC_CONTACT_VT) return;
    int64_t at = (int64_t)c->node[0] * DEFORMING_MOST + c->surface[1];
    if (!(distance < u->best[at])) return;
    u->best[at] = distance;
    u->nearest[at] = *c;
}

/// The surface falls steeply from the vertex towards what it is near: another contact stands in.
static bool steep(const deforming *d, int32_t s, int32_t node, qpc_vec3 away) {
    const qpc_surface *m = &d->surface[s];
    const qpc_topology *t = qpc_mesh_topology(m->mesh);
    int32_t v = node - m->first_node;
    for (int32_t i = t->vertex_edge_start[v]; i < t->vertex_edge_start[v + 1]; i++) {
        const int32_t *w = t->edge_vertex + 2 * t->vertex_edge[i];
        int32_t to = m->first_node + (w[0] == v ? w[1] : w[0]);
        qpc_vec3 u = v3_sub(v3_load(d->x0 + 3 * to), v3_load(d->x0 + 3 * node));
        if (v3_dot(u, away) < -0.499 * v3_norm(u) * v3_norm(away)) return true;
    }
    return false;
}

/// Direction from the triangle of a pair to its vertex: the gradient of the distance.
static qpc_vec3 away_from(const deforming *d, const qpc_contact *c) {
    double p[12], g[3], h = 1e-5 * distance_of(d->x0, c);
    points(d->x0, c, p);
    for (int k = 0; k < 3; k++) {
        double keep = p[k];
        p[k] = keep + h;
        g[k] = qpc_checker_distance_vt(p);
        p[k] = keep - h;
        g[k] = (g[k] - qpc_checker_distance_vt(p)) / (2 * h);
        p[k] = keep;
    }
    return v3(g[0], g[1], g[2]);
}

static void check_vertices(sheet_run *r, const deforming *d, const near_user *all) {
    double *got = malloc((size_t)d->nodes * DEFORMING_MOST * sizeof *got);
    if (got == NULL) abort();
    for (int64_t i = 0; i < (int64_t)d->nodes * DEFORMING_MOST; i++) got[i] = INFINITY;
    for (int32_t i = 0; i < r->contacts.count; i++) {
        const qpc_contact *c = &r->contacts.data[i];
        int split = c->kind == QPC_CONTACT_VT ? 1 : 2;
        for (int k = 0; k < 4; k++) {
            if (fabs(c->weight[k]) != 1) continue;
            double *g = &got[(int64_t)c->node[k] * DEFORMING_MOST + c->surface[k < split]];
            *g = fmin(*g, c->distance);
        }
    }
    for (int32_t s = 0; s < d->count; s++) {
        const qpc_surface *m = &d->surface[s];
        if (m->motion != QPC_DYNAMIC || m->mesh == NULL) continue;
        for (int32_t v = m->first_node; v < m->first_node + m->node_count; v++)
            for (int32_t j = 0; j < d->count; j++) {
                int64_t at = (int64_t)v * DEFORMING_MOST + j;
                double want = all->best[at];
                double reach = r->reach * (m->radius + d->surface[j].radius);
                if (!(want < reach * (1 - 1e-9))) continue;
                if (got[at] <= want * (1 + 1e-7) + 1e-12) continue;
                if (steep(d, s, v, away_from(d, &all->nearest[at]))) continue;
                fail_msg("node %d of surface %d is %.9g from surface %d and has contact %.9g",
                         (int)v, (int)s, want, (int)j, got[at]);
            }
    }
    free(got);
}

void sheet_run_near(sheet_run *r, deforming *d) {
    qpc_error err = {0};
    qpc_contacts swap = r->before;
    r->before = r->contacts;
    r->contacts = swap;
    assert_ok(qpc_detect_proximity(r->det, d->x0, r->reach, &r->contacts, &err), &err);
    check_form(d, &r->contacts, d->x0, false);
    r->near += r->contacts.count;
    for (int32_t i = 0; i < r->contacts.count; i++)
        r->self_near += (r->contacts.data[i].flags & QPC_CONTACT_NEAR_SELF) != 0;
    if (r->stride == 0) return;
    near_user u = {.run = r, .gap = 2};
    u.best = malloc((size_t)d->nodes * DEFORMING_MOST * sizeof *u.best);
    u.nearest = malloc((size_t)d->nodes * DEFORMING_MOST * sizeof *u.nearest);
    if (u.best == NULL || u.nearest == NULL) abort();
    for (int64_t i = 0; i < (int64_t)d->nodes * DEFORMING_MOST; i++) u.best[i] = INFINITY;
    deforming_pairs(d, r->stride, near_pair, &u);
    check_vertices(r, d, &u);
    free(u.best);
    free(u.nearest);
    double gap = 0;
    assert_ok(qpc_detect_minimum_gap(r->det, d->x0, &gap, &err), &err);
    if (r->stride == 1)
        assert_near(gap, u.gap, 1e-9);
    else
        assert_true(gap <= u.gap + 1e-9);
}

// ---- motion ----

typedef struct motion_user {
    sheet_run *run;
    const qpc_contact *sorted;
    uint8_t *explained; // (contacts)
    int64_t hits, touching;
} motion_user;

static void motion_pair(const deforming *d, qpc_contact *c, void *user) {
    motion_user *u = user;
    double s = u->run->factor * c->separation, most = 0.01 * c->separation;
    if (far(d->x0, d->x1, c, s + 2 * most)) return;
    qpc_vec3 p[4], q[4];
    qpc_ccd_result hit;
    double start;
    for (int k = 0; k < 4; k++) {
        p[k] = v3_load(d->x0 + 3 * c->node[k]);
        q[k] = v3_load(d->x1 + 3 * c->node[k]);
    }
    if (c->kind == QPC_CONTACT_VT)
        qpc_ccd_vt_keep(p, q, s, most, &hit, &start);
    else
        qpc_ccd_ee_keep(p, q, s, most, &hit, &start);
    if (hit.outcome == QPC_CCD_MISS) {
        // By the last word they do not touch either.
        double a[12], b[12], when;
        points(d->x0, c, a);
        points(d->x1, c, b);
        if (far(d->x0, d->x1, c, 0)) return;
        assert_int_equal(
            qpc_checker_query(u->run->exact, c->kind == QPC_CONTACT_EE, a, b, &when, NULL), 0);
        return;
    }
    u->hits++;
    double a[12], b[12], when;
    points(d->x0, c, a);
    points(d->x1, c, b);
    if (qpc_checker_query(u->run->exact, c->kind == QPC_CONTACT_EE, a, b, &when, NULL) == 1) {
        u->touching++;
        assert_true(hit.toi <= when);
    }
    memcpy(c->weight, hit.weight, sizeof c->weight);
    const qpc_contact *found =
        bsearch(c, u->sorted, (size_t)u->run->contacts.count, sizeof *c, by_support);
    if (found == NULL) {
        fail_msg("a hit at %g of surfaces %d and %d, features %d and %d, is missing", hit.toi,
                 (int)c->surface[0], (int)c->surface[1], (int)c->feature[0], (int)c->feature[1]);
        return;
    }
    assert_true(found->toi <= hit.toi);
    if (found->toi == hit.toi) u->explained[found - u->sorted] = 1;
}

void sheet_run_motion(sheet_run *r, deforming *d) {
    qpc_error err = {0};
    qpc_contacts motion = {0}, keep = r->contacts;
    assert_ok(qpc_detect_motion(r->det, d->x0, d->x1, r->factor, &motion, &err), &err);
    check_form(d, &motion, d->x0, true);
    r->hits += motion.count;
    if (r->stride > 0) {
        motion_user u = {.run = r, .sorted = sorted(&motion)};
        u.explained = calloc((size_t)motion.count + 1, 1);
        if (u.explained == NULL) abort();
        r->contacts = motion;
        deforming_pairs(d, r->stride, motion_pair, &u);
        r->contacts = keep;
        for (int32_t i = 0; i < motion.count && r->stride == 1; i++) {
            // Where features touch, the last bit says which of them is nearest; what only comes
            // within the tolerance may be a hit or not.
            const qpc_contact *c = &u.sorted[i];
            assert_true(u.explained[i] || c->distance < 1e-12 ||
                        c->distance > r->factor * c->separation);
            // Each once. A soup may have a triangle twice, under two numbers.
            bool again = i > 0 && by_support(&u.sorted[i - 1], c) == 0 && c->distance >= 1e-12;
            assert_true(!again || (c->kind == QPC_CONTACT_VT && c[-1].kind == QPC_CONTACT_VT &&
                                   c->feature[1] != c[-1].feature[1])); // each once
        }
        r->touching += u.touching;
        free(u.explained);
        free((void *)(uintptr_t)u.sorted);
    }
    qpc_array_fini(&motion);
}

int32_t sheet_common(const qpc_contacts *a, const qpc_contacts *b) {
    int32_t common = 0;
    for (int32_t i = 0, k = 0; i < a->count && k < b->count;) {
        if (a->data[i].key == b->data[k].key) {
            common++;
            i++;
            k++;
        } else if (a->data[i].key < b->data[k].key) {
            i++;
        } else {
            k++;
        }
    }
    return common;
}
