/// See check_obstacles.h.
#include "tests/support/check_obstacles.h"

#include <math.h>
#include <string.h>

typedef struct pose {
    double o[3], q[4]; // w, x, y, z
} pose;

// ---- distances ----

/// From p, in the frame, to the nearest point of the shape: negative inside, where it is the way to the nearest side.
static double distance(const qpc_check_obstacle *s, const double p[3]) {
    double along = p[s->axis], around = 0, out[3], sum = 0, inside = -HUGE_VAL;
    for (int i = 0; i < 3; i++) around += i == s->axis ? 0 : p[i] * p[i];
    around = sqrt(around);
    double past = fabs(along) - s->half[s->axis];
    switch (s->shape) {
    case 'p': return along;
    case 's': return hypot(around, along) - s->radius;
    case 'C': return hypot(around, fmax(past, 0)) - s->radius;
    case 'c':
        out[0] = around - s->radius;
        out[1] = past;
        out[2] = -HUGE_VAL;
        break;
    default:
        for (int i = 0; i < 3; i++) out[i] = fabs(p[i]) - s->half[i];
    }
    for (int i = 0; i < 3; i++) {
        sum += out[i] > 0 ? out[i] * out[i] : 0;
        inside = fmax(inside, out[i]);
    }
    return inside > 0 ? sqrt(sum) : inside;
}

// ---- frames ----

static void pose_of(const double *x, pose *ret) {
    double m[3][3];
    for (int i = 0; i < 3; i++) {
        double d[3], size = 0;
        for (int k = 0; k < 3; k++) {
            d[k] = x[3 * (i + 1) + k] - x[k];
            size += d[k] * d[k];
        }
        for (int k = 0; k < 3; k++) m[k][i] = d[k] / sqrt(size);
    }
    memcpy(ret->o, x, sizeof ret->o);
    // The quaternion is an eigenvector: of its four products by one component the largest is best.
    double t[4] = {1 + m[0][0] + m[1][1] + m[2][2], 1 + m[0][0] - m[1][1] - m[2][2], 1 - m[0][0] + m[1][1] - m[2][2],
                   1 - m[0][0] - m[1][1] + m[2][2]};
    int k = 0;
    for (int i = 1; i < 4; i++)
        if (t[i] > t[k]) k = i;
    double a = m[2][1] - m[1][2], b = m[0][2] - m[2][0], c = m[1][0] - m[0][1];
    double d = m[1][0] + m[0][1], e = m[0][2] + m[2][0], f = m[2][1] + m[1][2];
    const double column[4][4] = {{t[0], a, b, c}, {a, t[1], d, e}, {b, d, t[2], f}, {c, e, f, t[3]}};
    double size = sqrt(column[k][0] * column[k][0] + column[k][1] * column[k][1] + column[k][2] * column[k][2] + column[k][3] * column[k][3]);
    for (int i = 0; i < 4; i++) ret->q[i] = column[k][i] / size;
}

static double angle_between(const pose *a, const pose *b) {
    double dot = 0;
    for (int i = 0; i < 4; i++) dot += a->q[i] * b->q[i];
    return 2 * acos(fmin(1, fabs(dot)));
}

static void between(const pose *a, const pose *b, double t, pose *ret) {
    double angle = 0.5 * angle_between(a, b), dot = 0, size = 0;
    for (int i = 0; i < 4; i++) dot += a->q[i] * b->q[i];
    double wa = angle > 1e-6 ? sin((1 - t) * angle) : 1 - t, wb = (angle > 1e-6 ? sin(t * angle) : t) * (dot < 0 ? -1 : 1);
    for (int i = 0; i < 3; i++) ret->o[i] = (1 - t) * a->o[i] + t * b->o[i];
    for (int i = 0; i < 4; i++) {
        ret->q[i] = wa * a->q[i] + wb * b->q[i];
        size += ret->q[i] * ret->q[i];
    }
    for (int i = 0; i < 4; i++) ret->q[i] /= sqrt(size);
}

/// p in the frame: turned back.
static void into(const pose *f, const double p[3], double ret[3]) {
    double w = f->q[0], x = -f->q[1], y = -f->q[2], z = -f->q[3], r[3];
    for (int i = 0; i < 3; i++) r[i] = p[i] - f->o[i];
    double cx = y * r[2] - z * r[1], cy = z * r[0] - x * r[2], cz = x * r[1] - y * r[0];
    ret[0] = r[0] + 2 * (w * cx + y * cz - z * cy);
    ret[1] = r[1] + 2 * (w * cy + z * cx - x * cz);
    ret[2] = r[2] + 2 * (w * cz + x * cy - y * cx);
}

// ---- edges and triangles over a motion ----

typedef struct path {
    const qpc_check_obstacle *s;
    pose from, to;
    int size;                   // 2 or 3 corners
    double from_at[3][3], to_at[3][3], speed; // of them; largest relative speed of a point, m a motion
} path;

typedef struct side {
    const qpc_check_obstacle *s;
    const double *from, *to, *apex; // apex: the function is the least distance of the segment from there
} side;

static double golden(const side *f, int steps);

/// Distance at a point of the side, or of the segment from the apex to it: either is a convex function along the side.
static double along(const side *f, double w) {
    double at[3];
    for (int c = 0; c < 3; c++) at[c] = (1 - w) * f->from[c] + w * f->to[c];
    if (f->apex == NULL) return distance(f->s, at);
    const side inner = {f->s, f->apex, at, NULL};
    return golden(&inner, 24);
}

/// Least value by a golden section. 24 steps find the place to 1e-5 of the length, 60 exactly.
static double golden(const side *f, int steps) {
    static const double part = 0.6180339887498949;
    double low = 0, high = 1, u = 1 - part, v = part, fu = along(f, u), fv = along(f, v);
    double best = fmin(fmin(along(f, 0), along(f, 1)), fmin(fu, fv));
    for (int i = 0; i < steps; i++) {
        if (fu < fv) {
            high = v, v = u, fv = fu;
            best = fmin(best, fu = along(f, u = high - part * (high - low)));
        } else {
            low = u, u = v, fu = fv;
            best = fmin(best, fv = along(f, v = low + part * (high - low)));
        }
    }
    return best;
}

static double of_feature(const qpc_check_obstacle *s, int size, double p[3][3]) {
    const side inside = {s, p[1], p[2], p[0]};
    double best = size == 3 ? golden(&inside, 24) : HUGE_VAL;
    for (int k = 0; k < (size == 3 ? 3 : 1); k++) {
        const side edge = {s, p[k], p[(k + 1) % 3], NULL};
        best = fmin(best, golden(&edge, 60));
    }
    return best;
}

/// Least distance at t, or if that is more than enough something in between.
static double least(const path *p, double t, double enough) {
    double local[3][3], middle[3] = {0, 0, 0}, size = 0;
    pose f;
    between(&p->from, &p->to, t, &f);
    for (int k = 0; k < p->size; k++) {
        double at[3];
        for (int i = 0; i < 3; i++) at[i] = (1 - t) * p->from_at[k][i] + t * p->to_at[k][i];
        into(&f, at, local[k]);
        for (int i = 0; i < 3; i++) middle[i] += local[k][i] / p->size;
    }
    for (int k = 0; k < p->size; k++) {
        double sum = 0;
        for (int i = 0; i < 3; i++) sum += (local[k][i] - middle[i]) * (local[k][i] - middle[i]);
        size = fmax(size, sqrt(sum));
    }
    double bound = distance(p->s, middle) - size;
    if (bound > enough) return bound;
    return of_feature(p->s, p->size, local);
}

/// When it comes to the shape within [t0, t1]; 2: never.
static double comes_in(const path *p, double t0, double t1, int depth) {
    double middle = 0.5 * (t0 + t1), reach = 0.5 * p->speed * (t1 - t0), d = least(p, middle, reach);
    if (d > reach) return 2;
    if (depth == 0) return d <= 0 ? middle : 2;
    double first = comes_in(p, t0, middle, depth - 1);
    return first <= 1 ? first : d <= 0 ? middle : comes_in(p, middle, t1, depth - 1);
}

static double norm_of(const double a[3]) { return sqrt(a[0] * a[0] + a[1] * a[1] + a[2] * a[2]); }

static double speed_of(const path *p, const double x0[3], const double x1[3]) {
    double way[3], r0[3], r1[3];
    for (int i = 0; i < 3; i++) {
        r0[i] = x0[i] - p->from.o[i];
        r1[i] = x1[i] - p->to.o[i];
        way[i] = r1[i] - r0[i];
    }
    return norm_of(way) + angle_between(&p->from, &p->to) * fmax(norm_of(r0), norm_of(r1));
}

static void find(qpc_check_report *r, qpc_finding_kind kind, const qpc_check_obstacle *s, const qpc_check_feature_list *l, int32_t e, double t) {
    ++*(kind == QPC_FOUND_CROSSING ? &r->crossings : &r->intersections);
    if (r->finding_count < QPC_FINDINGS_MAX)
        r->finding[r->finding_count++] = (qpc_finding){kind, r->states, {l->body, s->body}, {e, 0}, t};
}

bool qpc_check_obstacles(const qpc_check_obstacle *obstacles, int32_t obstacle_count, const qpc_check_feature_list *lists,
                         int32_t list_count, const double *x0, const double *x1, qpc_check_report *report) {
    bool clean = true;
    for (int32_t k = 0; k < obstacle_count; k++) {
        const qpc_check_obstacle *s = &obstacles[k];
        path p = {.s = s};
        pose_of(x0 + 3 * (int64_t)s->first_node, &p.from);
        pose_of(x1 + 3 * (int64_t)s->first_node, &p.to);
        for (int32_t l = 0; l < list_count; l++)
            for (int32_t e = 0; e < lists[l].count; e++) {
                p.size = lists[l].size;
                p.speed = 0;
                for (int c = 0; c < p.size; c++) {
                    int64_t v = 3 * (int64_t)lists[l].nodes[(int64_t)p.size * e + c];
                    memcpy(p.from_at[c], x0 + v, sizeof p.from_at[c]);
                    memcpy(p.to_at[c], x1 + v, sizeof p.to_at[c]);
                    p.speed = fmax(p.speed, speed_of(&p, p.from_at[c], p.to_at[c]) * (1 + 1e-9));
                }
                report->pairs++;
                double t = x0 == x1 ? 2 : comes_in(&p, 0, 1, 24), thickness = s->thickness + lists[l].radius, d = least(&p, 1, 2 * thickness);
                if (t <= 1) find(report, QPC_FOUND_CROSSING, s, &lists[l], e, t);
                if (d <= 0) find(report, QPC_FOUND_INTERSECTION, s, &lists[l], e, 1);
                clean = clean && t > 1 && d > 0;
                report->worst_penetration = fmax(report->worst_penetration, 1 - d / thickness);
                report->least_ratio = fmin(report->least_ratio, d / thickness);
            }
    }
    return clean;
}
