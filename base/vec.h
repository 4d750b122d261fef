/// 3-vectors and 3x3 matrices as inline functions on values. Row-major matrices.
#ifndef QPC_BASE_VEC_H
#define QPC_BASE_VEC_H

#include <math.h>

typedef struct qpc_vec3 {
    double x, y, z;
} qpc_vec3;

typedef struct qpc_mat3 {
    double m[9]; // row-major
} qpc_mat3;

static inline qpc_vec3 v3(double x, double y, double z) { return (qpc_vec3){x, y, z}; }
static inline qpc_vec3 v3_load(const double *p) { return (qpc_vec3){p[0], p[1], p[2]}; }
static inline void v3_store(double *p, qpc_vec3 a) {
    p[0] = a.x;
    p[1] = a.y;
    p[2] = a.z;
}
static inline qpc_vec3 v3_add(qpc_vec3 a, qpc_vec3 b) { return v3(a.x + b.x, a.y + b.y, a.z + b.z); }
static inline qpc_vec3 v3_sub(qpc_vec3 a, qpc_vec3 b) { return v3(a.x - b.x, a.y - b.y, a.z - b.z); }
static inline qpc_vec3 v3_scale(double s, qpc_vec3 a) { return v3(s * a.x, s * a.y, s * a.z); }
static inline qpc_vec3 v3_neg(qpc_vec3 a) { return v3(-a.x, -a.y, -a.z); }
/// a + s b
static inline qpc_vec3 v3_madd(qpc_vec3 a, double s, qpc_vec3 b) {
    return v3(a.x + s * b.x, a.y + s * b.y, a.z + s * b.z);
}
/// (1 - t) a + t b
static inline qpc_vec3 v3_lerp(qpc_vec3 a, qpc_vec3 b, double t) {
    return v3(a.x + t * (b.x - a.x), a.y + t * (b.y - a.y), a.z + t * (b.z - a.z));
}
static inline double v3_dot(qpc_vec3 a, qpc_vec3 b) { return a.x * b.x + a.y * b.y + a.z * b.z; }
static inline qpc_vec3 v3_cross(qpc_vec3 a, qpc_vec3 b) {
    return v3(a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x);
}
static inline double v3_norm2(qpc_vec3 a) { return v3_dot(a, a); }
static inline double v3_norm(qpc_vec3 a) { return sqrt(v3_dot(a, a)); }
/// p turned by the unit quaternion q (w, x, y, z).
static inline qpc_vec3 v3_rotate(const double q[4], qpc_vec3 p) {
    qpc_vec3 u = v3(q[1], q[2], q[3]);
    qpc_vec3 t = v3_scale(2.0, v3_cross(u, p));
    return v3_add(v3_madd(p, q[0], t), v3_cross(u, t));
}
static inline int v3_finite(qpc_vec3 a) { return isfinite(a.x) && isfinite(a.y) && isfinite(a.z); }

#endif
