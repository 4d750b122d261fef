// Independent re-check of motions and states, see checker.h.
//
// Pairs: triangles of every mesh lie in a uniform grid by their (swept) boxes; each chain edge asks
// for those its own swept box, grown by the thickness, overlaps. Chain edges are swept against each
// other along the longest axis.
// One query: the pair differences w_i(t) (vertex minus corners, or ends of one edge minus ends of the
// other) are linear in t. The pair is apart on [t0, t1] if some direction n has n.w_i > 0 beyond
// rounding for all i at both ends, or if the Bernstein coefficients of the coplanarity cubic have one
// sign beyond rounding. Otherwise the interval is halved, to a bounded depth; what stays open goes to
// the exact test. So a miss is proven, a hit is exact.
#include "tests/support/checker_inside.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH_MAX = 12, SPLITS_MAX = 200 };

// ---- small vectors; own code on purpose ----

static double dot3(const double *a, const double *b) {
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}
static void cross3(const double *a, const double *b, double *r) {
    r[0] = a[1] * b[2] - a[2] * b[1];
    r[1] = a[2] * b[0] - a[0] * b[2];
    r[2] = a[0] * b[1] - a[1] * b[0];
}
static double det3(const double *a, const double *b, const double *c) {
    double n[3];
    cross3(a, b, n);
    return dot3(n, c);
}
static double greatest(const double *a) {
    return fmax(fabs(a[0]), fmax(fabs(a[1]), fabs(a[2])));
}

// ---- distances ----

static double point_segment(const double *p, const double *a, const double *b) {
    double d[3], q[3], r[3];
    diff(b, a, d);
    diff(p, a, q);
    double dd = dot3(d, d), s = dd > 0 ? dot3(q, d) / dd : 0;
    s = s < 0 ? 0 : s > 1 ? 1 : s;
    for (int i = 0; i < 3; i++) r[i] = q[i] - s * d[i];
    return sqrt(dot3(r, r));
}
double qpc_checker_distance_vt(const double x[12]) {
    const double *p = x, *a = x + 3, *b = x + 6, *c = x + 9;
    double best = fmin(point_segment(p, a, b), fmin(point_segment(p, b, c), point_segment(p, c, a)));
    // the foot on the plane counts when it is on the inner side of all three edges
    double ab[3], ac[3], n[3], q[3], t[3], e[3];
    diff(b, a, ab);
    diff(c, a, ac);
    cross3(ab, ac, n);
    double nn = dot3(n, n);
    if (!(nn > 0)) return best;
    for (int k = 0; k < 3; k++) {
        const double *from = k == 0 ? a : k == 1 ? b : c, *to = k == 0 ? b : k == 1 ? c : a;
        diff(to, from, e);
        diff(p, from, q);
        cross3(e, q, t);
        if (dot3(t, n) < 0) return best;
    }
    diff(p, a, q);
    return fmin(best, fabs(dot3(q, n)) / sqrt(nn));
}
double qpc_checker_distance_ee(const double x[12]) {
    const double *a0 = x, *a1 = x + 3, *b0 = x + 6, *b1 = x + 9;
    double best = fmin(fmin(point_segment(a0, b0, b1), point_segment(a1, b0, b1)),
                       fmin(point_segment(b0, a0, a1), point_segment(b1, a0, a1)));
    double da[3], db[3], r[3], w[3];
    diff(a1, a0, da);
    diff(b1, b0, db);
    diff(b0, a0, r);
    double aa = dot3(da, da), bb = dot3(db, db), ab = dot3(da, db), det = aa * bb - ab * ab;
    if (!(det > 0)) return best;
    double ra = dot3(r, da), rb = dot3(r, db);
    double s = (ra * bb - rb * ab) / det, t = (ra * ab - rb * aa) / det;
    if (!(s >= 0 && s <= 1 && t >= 0 && t <= 1)) return best;
    for (int i = 0; i < 3; i++) w[i] = r[i] + t * db[i] - s * da[i];
    return fmin(best, sqrt(dot3(w, w)));
}

// ---- one query over a motion ----

typedef struct motion {
    int count;                // 3: vertex-triangle, 4: edge-edge
    double w0[4][3], w1[4][3]; // pair differences at t = 0 and 1
    double scale;             // largest component of any of them
    int splits;
} motion;

// True if n.w > 0 for all points of both sets, or < 0 for all, beyond rounding (64 u |n| scale: the
// differences, their interpolation and the product lose at most 12 u).
static bool direction_separates(const motion *m, double wa[4][3], double wb[4][3],
                                const double *n) {
    double size = fabs(n[0]) + fabs(n[1]) + fabs(n[2]);
    double margin = 64 * 0x1p-53 * size * m->scale;
    if (!(size > 1e-100)) return false;
    double low = INFINITY, high = -INFINITY;
    for (int i = 0; i < m->count; i++) {
        double fa = dot3(n, wa[i]), fb = dot3(n, wb[i]);
        low = fmin(low, fmin(fa, fb));
        high = fmax(high, fmax(fa, fb));
    }
    return low > margin || high < -margin;
}
static bool never_coplanar(const motion *m, double wa[4][3], double wb[4][3]) {
    // three linear vectors whose determinant is the volume of the four points
    double u[2][3], v[2][3], w[2][3];
    for (int end = 0; end < 2; end++) {
        double(*p)[3] = end ? wb : wa;
        if (m->count == 3) { // vertex minus corners
            memcpy(u[end], p[0], sizeof u[end]);
            memcpy(v[end], p[1], sizeof v[end]);
            memcpy(w[end], p[2], sizeof w[end]);
        } else { // a0-b0, a0-b1, a1-b0: edge b, edge a, and between them
            diff(p[0], p[1], u[end]);
            diff(p[2], p[0], v[end]);
            memcpy(w[end], p[0], sizeof w[end]);
        }
    }
    double b0 = det3(u[0], v[0], w[0]), b3 = det3(u[1], v[1], w[1]);
    double b1 = (det3(u[1], v[0], w[0]) + det3(u[0], v[1], w[0]) + det3(u[0], v[0], w[1])) / 3;
    double b2 = (det3(u[0], v[1], w[1]) + det3(u[1], v[0], w[1]) + det3(u[1], v[1], w[0])) / 3;
    // six products of three factors of at most 2 scale, each off by at most 16 u scale
    double cube = 8 * m->scale * m->scale * m->scale, margin = 512 * 0x1p-53 * cube;
    if (!(margin > 1e-280)) return false;
    return (b0 > margin && b1 > margin && b2 > margin && b3 > margin) ||
           (b0 < -margin && b1 < -margin && b2 < -margin && b3 < -margin);
}
static bool certainly_apart(motion *m, double t0, double t1, int depth) {
    double wa[4][3], wb[4][3], mean[3] = {0, 0, 0};
    for (int i = 0; i < m->count; i++) {
        for (int k = 0; k < 3; k++) {
            double d = m->w1[i][k] - m->w0[i][k];
            wa[i][k] = t0 == 0 ? m->w0[i][k] : m->w0[i][k] + t0 * d;
            wb[i][k] = t1 == 1 ? m->w1[i][k] : m->w0[i][k] + t1 * d;
            mean[k] += wa[i][k] + wb[i][k];
        }
    }
    static const double axis[3][3] = {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}};
    for (int k = 0; k < 3; k++)
        if (direction_separates(m, wa, wb, axis[k])) return true;
    if (direction_separates(m, wa, wb, mean)) return true;
    // normal of the triangle (or of both edges) in the middle, and directions in its plane
    double mid[4][3], e1[3], e2[3], e3[3], n[3], side[3];
    for (int i = 0; i < m->count; i++)
        for (int k = 0; k < 3; k++) mid[i][k] = (wa[i][k] + wb[i][k]) / 2;
    diff(mid[0], mid[1], e1); // corner 1 - corner 0, or edge b
    diff(mid[0], mid[2], e2); // corner 2 - corner 0, or minus edge a
    diff(mid[1], mid[2], e3);
    cross3(e1, e2, n);
    double size = greatest(n);
    if (size > 0)
        for (int k = 0; k < 3; k++) n[k] /= size;
    if (direction_separates(m, wa, wb, n)) return true;
    if (never_coplanar(m, wa, wb)) return true;
    for (int k = 0; k < (m->count == 3 ? 3 : 2); k++) {
        cross3(n, k == 0 ? e1 : k == 1 ? e2 : e3, side);
        if (direction_separates(m, wa, wb, side)) return true;
        // straight away from an edge
        const double *e = k == 0 ? e1 : k == 1 ? e2 : e3, *q = k == 2 ? mid[1] : mid[0];
        double ee = dot3(e, e), s = ee > 0 ? dot3(q, e) / ee : 0;
        for (int j = 0; j < 3; j++) side[j] = q[j] - s * e[j];
        if (direction_separates(m, wa, wb, side)) return true;
    }
    for (int i = 0; i < m->count; i++)
        if (direction_separates(m, wa, wb, mid[i])) return true;
    if (depth == DEPTH_MAX || m->splits == SPLITS_MAX) return false;
    m->splits++;
    double half = (t0 + t1) / 2;
    return certainly_apart(m, t0, half, depth + 1) && certainly_apart(m, half, t1, depth + 1);
}

int qpc_checker_query(qpc_checker *checker, bool edges, const double x0[12], const double x1[12],
                      double *ret_time, bool *ret_exact) {
    motion m = {.count = edges ? 4 : 3};
    for (int i = 0; i < m.count; i++) {
        int p = edges ? 3 * (i / 2) : 0, q = edges ? 6 + 3 * (i % 2) : 3 + 3 * i;
        diff(x0 + p, x0 + q, m.w0[i]);
        diff(x1 + p, x1 + q, m.w1[i]);
        m.scale = fmax(m.scale, fmax(greatest(m.w0[i]), greatest(m.w1[i])));
    }
    bool finite = true;
    for (int i = 0; i < 12; i++) finite = finite && isfinite(x0[i]) && isfinite(x1[i]);
    // no NaN that fmin passes over, no overflow, no underflow that matters
    bool sane = finite && m.scale < 1e90 && m.scale > 1e-90;
    bool apart = sane && certainly_apart(&m, 0, 1, 0);
    if (ret_exact != NULL) *ret_exact = !apart;
    if (apart) return 0;
    return edges ? (int)qpc_exact_ee(checker->exact, x0, x1, ret_time)
                 : (int)qpc_exact_vt(checker->exact, x0, x1, ret_time);
}

// ---- boxes and grids ----

static int32_t cell_of(const grid *g, int k, double value) {
    double c = (value - g->bounds.low[k]) / g->cell[k];
    if (!(c > 0)) return 0;
    return c >= g->n[k] ? g->n[k] - 1 : (int32_t)c;
}
void qpc_checker_cells(const grid *g, const box *b, double grow, int32_t low[3], int32_t high[3]) {
    for (int k = 0; k < 3; k++) {
        low[k] = cell_of(g, k, b->low[k] - grow);
        high[k] = cell_of(g, k, b->high[k] + grow);
    }
}
bool qpc_checker_grid(const qpc_checker_body *body, grid *g, const double *x0, const double *x1) {
    const int32_t count = body->triangle_count;
    double extent[3] = {0, 0, 0};
    box_empty(&g->bounds);
    for (int32_t t = 0; t < count; t++) {
        box *b = &g->boxes[t];
        box_empty(b);
        for (int k = 0; k < 3; k++) {
            int64_t node = body->first_node + body->triangles[3 * t + k];
            box_point(b, x0 + 3 * node);
            box_point(b, x1 + 3 * node);
        }
        box_point(&g->bounds, b->low);
        box_point(&g->bounds, b->high);
        for (int k = 0; k < 3; k++) extent[k] += (b->high[k] - b->low[k]) / count;
    }
    // cells of about the mean size of a triangle, at most 64 a side
    int64_t cells = 1;
    for (int k = 0; k < 3; k++) {
        double span = g->bounds.high[k] - g->bounds.low[k];
        double want = extent[k] > 0 ? ceil(span / extent[k]) : 1;
        g->n[k] = want > 64 ? 64 : want >= 1 ? (int32_t)want : 1;
        g->cell[k] = span > 0 ? span / g->n[k] : 1;
        cells *= g->n[k];
    }
    int32_t *start = realloc(g->start, (size_t)(cells + 1) * sizeof *start);
    if (start == NULL) return false;
    g->start = start;
    memset(start, 0, (size_t)(cells + 1) * sizeof *start);
    for (int pass = 0; pass < 2; pass++) { // count, then fill
        for (int32_t t = 0; t < count; t++) {
            int32_t a[3], b[3];
            qpc_checker_cells(g, &g->boxes[t], 0, a, b);
            for (int32_t i = a[0]; i <= b[0]; i++) {
                for (int32_t j = a[1]; j <= b[1]; j++) {
                    for (int32_t k = a[2]; k <= b[2]; k++) {
                        int32_t c = (i * g->n[1] + j) * g->n[2] + k;
                        if (pass == 0) start[c + 1]++;
                        else g->item[start[c]++] = t;
                    }
                }
            }
        }
        if (pass == 1) { // start[c] is now the end of cell c: shift back
            memmove(start + 1, start, (size_t)cells * sizeof *start);
            start[0] = 0;
            break;
        }
        for (int64_t c = 0; c < cells; c++) start[c + 1] += start[c];
        if (start[cells] > g->item_capacity) {
            int32_t *item = realloc(g->item, (size_t)start[cells] * sizeof *item);
            if (item == NULL) return false;
            g->item = item;
            g->item_capacity = start[cells];
        }
    }
    return true;
}

// ---- creation ----

void qpc_check_report_init(qpc_check_report *report) {
    *report = (qpc_check_report){.least_ratio = QPC_CHECK_FAR};
}

void qpc_checker_destroy(qpc_checker *checker) {
    if (checker == NULL) return;
    for (int32_t i = 0; checker->bodies != NULL && i < checker->body_count; i++)
        free((void *)(uintptr_t)checker->bodies[i].triangles);
    for (int32_t i = 0; checker->grids != NULL && i < checker->body_count; i++) {
        free(checker->grids[i].start);
        free(checker->grids[i].item);
        free(checker->grids[i].stamp);
        free(checker->grids[i].boxes);
    }
    qpc_checker_meshes_destroy(checker);
    qpc_exact_destroy(checker->exact);
    free(checker->bodies);
    free(checker->grids);
    free(checker->grid_ready);
    free(checker->edges);
    free(checker->swept);
    free(checker->order);
    free(checker->x);
    free(checker);
}

qpc_status qpc_checker_create(const qpc_checker_body *bodies, int32_t body_count, const double *x,
                              int32_t node_count, qpc_checker **ret, qpc_error *err) {
    int64_t edge_count = 0;
    for (int32_t i = 0; i < body_count; i++) {
        const qpc_checker_body *b = &bodies[i];
        if (b->first_node < 0 || b->node_count < 1 || b->first_node > node_count - b->node_count)
            return qpc_fail(err, QPC_ERR_INVALID, "body %d: nodes %d to %d of %d", i, b->first_node,
                            b->first_node + b->node_count - 1, node_count);
        for (int64_t k = 0; b->triangles != NULL && k < 3 * (int64_t)b->triangle_count; k++)
            if (b->triangles[k] < 0 || b->triangles[k] >= b->node_count)
                return qpc_fail(err, QPC_ERR_INVALID, "body %d: triangle %d uses node %d", i,
                                (int)(k / 3), b->triangles[k]);
        if (b->triangles == NULL) edge_count += b->node_count > 1 ? b->node_count - 1 : 1;
    }
    qpc_checker *c = calloc(1, sizeof *c);
    if (c == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "checker");
    c->body_count = body_count;
    c->node_count = node_count;
    c->bodies = calloc((size_t)body_count + 1, sizeof *c->bodies);
    c->grids = calloc((size_t)body_count + 1, sizeof *c->grids);
    c->grid_ready = calloc((size_t)body_count + 1, sizeof *c->grid_ready);
    c->edges = calloc((size_t)edge_count + 1, sizeof *c->edges);
    c->swept = calloc((size_t)edge_count + 1, sizeof *c->swept);
    c->order = calloc((size_t)edge_count + 1, sizeof *c->order);
    c->x = calloc(3 * (size_t)node_count + 1, sizeof *c->x);
    c->exact = qpc_exact_create();
    if (!c->bodies || !c->grids || !c->grid_ready || !c->edges || !c->swept || !c->order || !c->x ||
        !c->exact)
        goto memory;
    memcpy(c->x, x, 3 * (size_t)node_count * sizeof *x);
    for (int32_t i = 0; i < body_count; i++) {
        qpc_checker_body *b = &c->bodies[i];
        *b = bodies[i];
        b->triangles = NULL;
        b->rest_length = NULL;
        if (b->self_exclusion < 0) b->self_exclusion = acos(-1.0) * b->radius;
        c->radius_max = fmax(c->radius_max, b->radius);
        if (bodies[i].triangles != NULL) {
            size_t size = 3 * (size_t)b->triangle_count * sizeof(int32_t);
            int32_t *copy = malloc(size + 1);
            if (copy == NULL) goto memory;
            memcpy(copy, bodies[i].triangles, size);
            b->triangles = copy;
            grid *g = &c->grids[i];
            g->boxes = calloc((size_t)b->triangle_count + 1, sizeof *g->boxes);
            g->stamp = calloc((size_t)b->triangle_count + 1, sizeof *g->stamp);
            if (!g->boxes || !g->stamp) goto memory;
            continue;
        }
        double arc = 0;
        int32_t n = b->node_count > 1 ? b->node_count - 1 : 1;
        for (int32_t k = 0; k < n; k++) {
            int32_t node = b->first_node + k, other = b->node_count > 1 ? node + 1 : node;
            double d[3];
            diff(x + 3 * (int64_t)other, x + 3 * (int64_t)node, d);
            double rest = bodies[i].rest_length != NULL && b->node_count > 1
                              ? bodies[i].rest_length[k]
                              : sqrt(dot3(d, d));
            c->edges[c->edge_count++] = (edge){
                .body = i, .node = node, .other = other, .local = k, .arc = arc, .rest = rest};
            arc += rest;
        }
    }
    if (!qpc_checker_meshes_create(c)) goto memory;
    *ret = c;
    return QPC_OK;
memory:
    qpc_checker_destroy(c);
    return qpc_fail(err, QPC_ERR_MEMORY, "checker");
}

// ---- a motion ----

void qpc_checker_found(qpc_check_report *r, qpc_finding_kind kind, const edge *e, int32_t body,
                  int32_t feature, double time) {
    if (kind == QPC_FOUND_INTERSECTION) r->intersections++;
    if (kind == QPC_FOUND_CROSSING) r->crossings++;
    if (kind == QPC_FOUND_UNDECIDED) r->undecided++;
    if (r->finding_count == QPC_FINDINGS_MAX) return;
    r->finding[r->finding_count++] = (qpc_finding){.kind = kind,
                                                   .state = r->states,
                                                   .body = {e->body, body},
                                                   .feature = {e->local, feature},
                                                   .time = time};
}
void qpc_checker_note(qpc_check_report *r, double distance, double thickness) {
    r->distances++;
    if (!(thickness > 0)) return;
    double ratio = distance / thickness;
    if (ratio < r->least_ratio) r->least_ratio = ratio;
    if (1 - ratio > r->worst_penetration) {
        r->worst_penetration = 1 - ratio;
        r->worst_state = r->states;
    }
}
// Runs one query and folds its answer into *ret (1 hit wins over -1 undecided over 0).
void qpc_checker_ask(qpc_checker *c, bool edges, const double x0[12], const double x1[12],
                qpc_check_report *r, int *ret, double *time) {
    bool exact;
    double t = 0;
    r->queries++;
    int answer = qpc_checker_query(c, edges, x0, x1, &t, &exact);
    if (exact) r->exact_queries++;
    if (answer == 1 && (*ret != 1 || t < *time)) *time = t;
    if (answer == 1 || *ret == 0) *ret = answer;
}
// touch: the swept boxes overlap; if not, only the distance at the end is of interest.
static void edge_triangle(qpc_checker *c, const edge *e, int32_t body, int32_t t, bool touch,
                          bool moving, const double *x0, const double *x1, qpc_check_report *r) {
    const qpc_checker_body *b = &c->bodies[body];
    const qpc_checker_body *mine = &c->bodies[e->body];
    double p0[4][12], p1[4][12]; // two vertex-triangle, then scratch for edge-edge
    int64_t corner[3];
    for (int k = 0; k < 3; k++) corner[k] = b->first_node + b->triangles[3 * t + k];
    for (int v = 0; v < 2; v++) {
        put(p0[v], x0, v ? e->other : e->node);
        put(p1[v], x1, v ? e->other : e->node);
        for (int k = 0; k < 3; k++) {
            put(p0[v] + 3 + 3 * k, x0, corner[k]);
            put(p1[v] + 3 + 3 * k, x1, corner[k]);
        }
    }
    bool last = e->other == e->node || e->local == mine->node_count - 2;
    int answer = 0;
    double time = 1;
    moving = moving && touch;
    double distance = fmin(qpc_checker_distance_vt(p1[0]), qpc_checker_distance_vt(p1[1]));
    // vertex e->other belongs to the next edge, but for the last one
    if (moving) {
        qpc_checker_ask(c, false, p0[0], p1[0], r, &answer, &time);
        if (last && e->other != e->node) qpc_checker_ask(c, false, p0[1], p1[1], r, &answer, &time);
    }
    for (int k = 0; k < 3; k++) {
        put(p0[2], x0, e->node);
        put(p1[2], x1, e->node);
        put(p0[2] + 3, x0, e->other);
        put(p1[2] + 3, x1, e->other);
        put(p0[2] + 6, x0, corner[k]);
        put(p1[2] + 6, x1, corner[k]);
        put(p0[2] + 9, x0, corner[(k + 1) % 3]);
        put(p1[2] + 9, x1, corner[(k + 1) % 3]);
        if (moving) qpc_checker_ask(c, true, p0[2], p1[2], r, &answer, &time);
        distance = fmin(distance, qpc_checker_distance_ee(p1[2]));
    }
    if (answer == 1) qpc_checker_found(r, QPC_FOUND_CROSSING, e, body, t, time);
    if (answer < 0) qpc_checker_found(r, QPC_FOUND_UNDECIDED, e, body, t, 0);
    // the state: a point that runs along the edge meets the triangle at rest
    answer = 0;
    put(p0[3], x1, e->node);
    put(p1[3], x1, e->other);
    memcpy(p0[3] + 3, p1[0] + 3, 9 * sizeof(double));
    memcpy(p1[3] + 3, p1[0] + 3, 9 * sizeof(double));
    if (touch) qpc_checker_ask(c, false, p0[3], p1[3], r, &answer, &time);
    if (answer == 1) qpc_checker_found(r, QPC_FOUND_INTERSECTION, e, body, t, 1);
    qpc_checker_note(r, answer == 1 ? 0 : distance, b->radius + mine->radius);
}
static void edge_edge(qpc_checker *c, const edge *a, const edge *b, bool touch, bool moving,
                      const double *x0, const double *x1, qpc_check_report *r) {
    double p0[12], p1[12];
    const int64_t node[4] = {a->node, a->other, b->node, b->other};
    for (int k = 0; k < 4; k++) {
        put(p0 + 3 * k, x0, node[k]);
        put(p1 + 3 * k, x1, node[k]);
    }
    int answer = 0;
    double time = 1;
    if (moving && touch) qpc_checker_ask(c, true, p0, p1, r, &answer, &time);
    if (answer == 1) qpc_checker_found(r, QPC_FOUND_CROSSING, a, b->body, b->local, time);
    if (answer < 0) qpc_checker_found(r, QPC_FOUND_UNDECIDED, a, b->body, b->local, 0);
    answer = 0;
    if (touch) qpc_checker_ask(c, true, p1, p1, r, &answer, &time);
    if (answer == 1) qpc_checker_found(r, QPC_FOUND_INTERSECTION, a, b->body, b->local, 1);
    // near along the rest shape: only crossing counts
    double along = a->arc < b->arc ? b->arc - (a->arc + a->rest) : a->arc - (b->arc + b->rest);
    const qpc_checker_body *mine = &c->bodies[a->body], *other = &c->bodies[b->body];
    if (a->body == b->body && along < mine->self_exclusion * (1 + 1e-9)) return;
    qpc_checker_note(r, answer == 1 ? 0 : qpc_checker_distance_ee(p1), mine->radius + other->radius);
}

typedef struct sort_key {
    double low;
    int32_t edge;
} sort_key;
static int by_low(const void *a, const void *b) {
    const sort_key *p = a, *q = b;
    if (p->low != q->low) return p->low < q->low ? -1 : 1;
    return p->edge < q->edge ? -1 : p->edge > q->edge;
}
static void chains_against_chains(qpc_checker *c, bool moving, const double *x0, const double *x1,
                                  qpc_check_report *r) {
    box all;
    box_empty(&all);
    for (int32_t i = 0; i < c->edge_count; i++) {
        box_point(&all, c->swept[i].low);
        box_point(&all, c->swept[i].high);
    }
    int axis = 0;
    for (int k = 1; k < 3; k++)
        if (all.high[k] - all.low[k] > all.high[axis] - all.low[axis]) axis = k;
    sort_key *keys = malloc((size_t)c->edge_count * sizeof *keys + 1);
    if (keys == NULL) abort();
    for (int32_t i = 0; i < c->edge_count; i++)
        keys[i] = (sort_key){c->swept[i].low[axis], i};
    qsort(keys, (size_t)c->edge_count, sizeof *keys, by_low);
    double grow = QPC_CHECK_FAR * 2 * c->radius_max;
    for (int32_t i = 0; i < c->edge_count; i++) {
        const box *bi = &c->swept[keys[i].edge];
        for (int32_t j = i + 1; j < c->edge_count && keys[j].low <= bi->high[axis] + grow; j++) {
            if (!boxes_overlap(bi, &c->swept[keys[j].edge], grow)) continue;
            int32_t p = keys[i].edge, q = keys[j].edge;
            const edge *a = &c->edges[p < q ? p : q], *b = &c->edges[p < q ? q : p];
            if (a->node == b->node || a->other == b->node || a->node == b->other) continue;
            r->pairs++;
            bool touch = boxes_overlap(&c->swept[p], &c->swept[q], 0);
            edge_edge(c, a, b, touch, moving, x0, x1, r);
        }
    }
    free(keys);
}
static void chains_against_meshes(qpc_checker *c, bool moving, const double *x0, const double *x1,
                                  qpc_check_report *r) {
    for (int32_t body = 0; body < c->body_count; body++) {
        const qpc_checker_body *b = &c->bodies[body];
        grid *g = &c->grids[body];
        if (b->triangles == NULL || b->triangle_count == 0) continue;
        for (int32_t i = 0; i < c->edge_count; i++) {
            const edge *e = &c->edges[i];
            double grow = QPC_CHECK_FAR * (b->radius + c->bodies[e->body].radius);
            if (!boxes_overlap(&c->swept[i], &g->bounds, grow)) continue;
            int32_t low[3], high[3];
            qpc_checker_cells(g, &c->swept[i], grow, low, high);
            if (++g->stamp_now == INT32_MAX) {
                memset(g->stamp, 0, (size_t)b->triangle_count * sizeof *g->stamp);
                g->stamp_now = 1;
            }
            for (int32_t u = low[0]; u <= high[0]; u++) {
                for (int32_t v = low[1]; v <= high[1]; v++) {
                    for (int32_t w = low[2]; w <= high[2]; w++) {
                        int32_t cell = (u * g->n[1] + v) * g->n[2] + w;
                        for (int32_t k = g->start[cell]; k < g->start[cell + 1]; k++) {
                            int32_t t = g->item[k];
                            if (g->stamp[t] == g->stamp_now) continue;
                            g->stamp[t] = g->stamp_now;
                            if (!boxes_overlap(&c->swept[i], &g->boxes[t], grow)) continue;
                            r->pairs++;
                            bool touch = boxes_overlap(&c->swept[i], &g->boxes[t], 0);
                            edge_triangle(c, e, body, t, touch, moving, x0, x1, r);
                        }
                    }
                }
            }
        }
    }
}
static bool positions_finite(const qpc_checker *c, const double *x) {
    for (int64_t i = 0; i < 3 * (int64_t)c->node_count; i++)
        if (!isfinite(x[i])) return false;
    return true;
}
static bool check(qpc_checker *c, bool moving, const double *x0, const double *x1,
                  qpc_check_report *r) {
    int64_t before = r->crossings + r->intersections + r->undecided;
    if (!positions_finite(c, x0) || !positions_finite(c, x1)) {
        qpc_checker_found(r, QPC_FOUND_UNDECIDED, &(edge){0}, 0, 0, 0);
    } else {
        for (int32_t i = 0; i < c->edge_count; i++) {
            box_empty(&c->swept[i]);
            box_point(&c->swept[i], x0 + 3 * (int64_t)c->edges[i].node);
            box_point(&c->swept[i], x1 + 3 * (int64_t)c->edges[i].node);
            box_point(&c->swept[i], x0 + 3 * (int64_t)c->edges[i].other);
            box_point(&c->swept[i], x1 + 3 * (int64_t)c->edges[i].other);
        }
        for (int32_t i = 0; i < c->body_count; i++) {
            const qpc_checker_body *b = &c->bodies[i];
            if (b->triangles == NULL || b->triangle_count == 0 || (c->grid_ready[i] && !b->moves)) continue;
            if (!qpc_checker_grid(b, &c->grids[i], x0, x1)) abort();
            c->grid_ready[i] = true;
        }
        chains_against_meshes(c, moving, x0, x1, r);
        chains_against_chains(c, moving, x0, x1, r);
        qpc_checker_meshes(c, moving, x0, x1, r);
    }
    r->states++;
    if (moving) r->motions++;
    return r->crossings + r->intersections + r->undecided == before;
}

void qpc_checker_remove(qpc_checker *c, int32_t body) {
    int32_t kept = 0;
    c->bodies[body].triangle_count = 0;
    if (c->parts != NULL) c->parts[body].edge_count = 0;
    for (int32_t i = 0; i < c->edge_count; i++)
        if (c->edges[i].body != body) c->edges[kept++] = c->edges[i];
    c->edge_count = kept;
}

void qpc_checker_state(qpc_checker *checker, const double *x, qpc_check_report *report) {
    (void)check(checker, false, x, x, report);
}
bool qpc_checker_step(qpc_checker *checker, const double *x0, const double *x1,
                      qpc_check_report *report) {
    return check(checker, true, x0, x1, report);
}
