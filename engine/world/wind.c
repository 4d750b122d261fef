/// Wind on the triangles of cloth and soft bodies (docs/theory-cloth.md, TC8). Runs on the worker in the world.
#include "engine/world/loads.h"

typedef struct facet { // one triangle as it is at the start of the motion, x; those of soft bodies are outwards
    int32_t node[3];
    qpc_vec3 n;           // unit normal
    double normal, along; // rho A C / 2, kg/m
    bool outer;           // wind only blows on it, against n
} facet;

static int32_t facet_count(const qpc_world *w, const qpc_load *load) { return (int32_t)qpc_mesh_element_count(w->bodies[load->body].mesh); }

/// false: no area, and no normal.
static bool facet_of(const qpc_world *w, const qpc_load *load, int32_t t, facet *ret) {
    const qpc_body *body = &w->bodies[load->body];
    const int32_t *c = qpc_mesh_elements(body->mesh) + 3 * (int64_t)t;
    qpc_vec3 p[3];
    for (int k = 0; k < 3; k++) {
        ret->node[k] = body->first_node + c[k];
        p[k] = v3_load(w->x + 3 * (int64_t)ret->node[k]);
    }
    qpc_vec3 a = v3_cross(v3_sub(p[1], p[0]), v3_sub(p[2], p[0]));
    double twice = v3_norm(a), half = 0.25 * load->wind.density * twice; // rho A / 2
    if (!(twice > 0.0)) return false;
    ret->n = v3_scale(1.0 / twice, a);
    ret->normal = half * load->wind.drag;
    ret->along = half * load->wind.tangential;
    ret->outer = body->tets != NULL;
    return true;
}

static qpc_vec3 mean(const facet *s, const double *v) {
    return v3_scale(1.0 / 3.0, v3_add(v3_load(v + 3 * (int64_t)s->node[0]), v3_add(v3_load(v + 3 * (int64_t)s->node[1]), v3_load(v + 3 * (int64_t)s->node[2]))));
}

/// Of the air past a triangle that moves at v: its part along n, 0 on the side that the wind does not reach; its part across.
static double past(const qpc_load *load, const facet *s, qpc_vec3 v, qpc_vec3 *ret_across) {
    qpc_vec3 u = v3_sub(load->wind.velocity, v);
    double along_n = v3_dot(u, s->n);
    *ret_across = v3_madd(u, -along_n, s->n);
    return s->outer && along_n > 0.0 ? 0.0 : along_n;
}

static qpc_vec3 force_of(const qpc_load *load, const facet *s, qpc_vec3 v) {
    qpc_vec3 across;
    double u = past(load, s, v, &across);
    return v3_madd(v3_scale(s->along * v3_norm(across), across), s->normal * fabs(u) * u, s->n);
}

/// The velocities of a triangle at the end of the motion; dv NULL: at its start.
static qpc_vec3 velocity_of(const qpc_world *w, const facet *s, const double *dv) {
    qpc_vec3 v = mean(s, w->v);
    return dv != NULL ? v3_add(v, mean(s, dv)) : v;
}

void qpc_wind_force(const qpc_world *w, const qpc_load *load, const double *dv, double *f) {
    facet s;
    for (int32_t t = 0; t < facet_count(w, load); t++) {
        if (!facet_of(w, load, t, &s)) continue;
        qpc_vec3 third = v3_scale(1.0 / 3.0, force_of(load, &s, velocity_of(w, &s, dv)));
        for (int k = 0; k < 3; k++) {
            double *at = f + 3 * (int64_t)s.node[k];
            v3_store(at, v3_add(v3_load(at), third));
        }
    }
}

/// J = -df/dv: positive semidefinite, as f is the gradient of a convex function of the air's velocity.
static void slope_of(const qpc_load *load, const facet *s, qpc_vec3 v, double J[3][3]) {
    qpc_vec3 across;
    double u = past(load, s, v, &across), speed = v3_norm(across), n[3] = {s->n.x, s->n.y, s->n.z};
    double m[3] = {0.0, 0.0, 0.0};
    if (speed > 0.0) v3_store(m, v3_scale(1.0 / speed, across));
    for (int a = 0; a < 3; a++)
        for (int b = 0; b < 3; b++)
            J[a][b] = 2.0 * s->normal * fabs(u) * n[a] * n[b] + s->along * speed * ((a == b ? 1.0 : 0.0) - n[a] * n[b] + m[a] * m[b]);
}

/// K += J / 9 h between all corners, lower triangle.
static void add_slope(qpc_linsys *K, const facet *s, double h, double J[3][3]) {
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) {
            if (s->node[i] < s->node[j]) continue;
            for (int a = 0; a < 3; a++)
                for (int b = 0; b < (i == j ? a + 1 : 3); b++) *qpc_linsys_entry(K, 3 * s->node[i] + a, 3 * s->node[j] + b) += h / 9.0 * J[a][b];
        }
}

void qpc_wind_linearise(qpc_world *w, const qpc_load *load, double h, const double *u, double sign) {
    const double *dv = sign > 0.0 ? u : NULL;
    facet s;
    for (int32_t t = 0; t < facet_count(w, load); t++) {
        double J[3][3];
        if (!facet_of(w, load, t, &s)) continue;
        qpc_vec3 v = velocity_of(w, &s, dv), f = force_of(load, &s, v), change = dv != NULL ? mean(&s, dv) : v3(0.0, 0.0, 0.0);
        slope_of(load, &s, v, J);
        add_slope(&w->sys, &s, h, J);
        double push[3] = {f.x, f.y, f.z};
        for (int a = 0; a < 3; a++) push[a] += J[a][0] * change.x + J[a][1] * change.y + J[a][2] * change.z;
        for (int k = 0; k < 3; k++)
            for (int a = 0; a < 3; a++) w->b[3 * (int64_t)s.node[k] + a] += h / 3.0 * push[a];
    }
}

double qpc_wind_potential(const qpc_world *w, const qpc_load *load, double h, const double *dv) {
    double sum = 0.0;
    facet s;
    for (int32_t t = 0; t < facet_count(w, load); t++) {
        qpc_vec3 across;
        if (!facet_of(w, load, t, &s)) continue;
        double u = fabs(past(load, &s, velocity_of(w, &s, dv), &across)), c = v3_norm(across);
        sum += h / 3.0 * (s.normal * u * u * u + s.along * c * c * c);
    }
    return sum;
}

double qpc_wind_work(const qpc_world *w, const qpc_load *load, const double *dv) {
    double sum = 0.0;
    facet s;
    for (int32_t t = 0; t < facet_count(w, load); t++) {
        if (!facet_of(w, load, t, &s)) continue;
        sum += v3_dot(force_of(load, &s, velocity_of(w, &s, dv)), v3_sub(mean(&s, w->x1), mean(&s, w->x)));
    }
    return sum;
}
