/// The definitions, one function each; qp_score.h says which.
#include "tools/qp_score.h"

#include "base/mem.h"

#include <math.h>
#include <string.h>

#define NO_MEMORY(err) qpc_fail((err), QPC_ERR_MEMORY, "no memory to judge an answer")

/// The larger of both, and NaN if either is.
static double most(double a, double b) {
    return a > b || isnan(a) ? a : b;
}

/// y = K x, lower triangle by columns.
static void product(const qp_file *f, const long double *x, long double *y) {
    for (int32_t i = 0; i < f->n; i++) y[i] = 0;
    for (int32_t j = 0; j < f->n; j++) {
        for (int32_t k = f->K.start[j]; k < f->K.start[j + 1]; k++) {
            int32_t i = f->K.index[k];
            y[i] += (long double)f->K.value[k] * x[j];
            if (i != j) y[j] += (long double)f->K.value[k] * x[i];
        }
    }
}

/// |x|_K
static double energy_norm(const qp_file *f, const long double *x, long double *work) {
    long double sum = 0;
    product(f, x, work);
    for (int32_t i = 0; i < f->n; i++) sum += x[i] * work[i];
    return (double)sqrtl(sum > 0 || isnan(sum) ? sum : 0);
}

/// |r|_{K^-1} = |L^-1 r|; r is lost.
static double inverse_norm(const qp_ground *g, double *r) {
    long double sum = 0;
    qp_cholesky_forward(&g->L, 0, r);
    for (int32_t i = 0; i < g->file->n; i++) sum += (long double)r[i] * r[i];
    return (double)sqrtl(sum);
}

static bool is_empty(const qp_matrix *J, int32_t row) {
    for (int32_t k = J->start[row]; k < J->start[row + 1]; k++)
        if (J->value[k] != 0) return false;
    return true;
}

// ---- QP ----

qpc_status qp_score_qp(const qp_ground *g, const double *x, const double *lam, bool relaxed,
                       qp_score *ret, qpc_error *err) {
    const qp_file *f = g->file;
    size_t n = (size_t)f->n;
    long double *work = qpc_alloc_array(4 * n, sizeof *work);
    double *narrow = qpc_alloc_array(n, sizeof *narrow);
    if (work == NULL || narrow == NULL) {
        qpc_free(work);
        qpc_free(narrow);
        return NO_MEMORY(err);
    }
    long double *r = work, *size = work + n, *d = work + 2 * n, *Kd = work + 3 * n, comp = 0;
    qp_score out = {0};
    for (size_t i = 0; i < n; i++) d[i] = x[i];
    product(f, d, r);
    for (size_t i = 0; i < n; i++) {
        r[i] -= f->b[i];
        size[i] = fabsl((long double)f->b[i]);
        d[i] -= f->x[i];
    }
    for (int32_t j = 0; j < f->n; j++) // |K| |x|
        for (int32_t k = f->K.start[j]; k < f->K.start[j + 1]; k++) {
            int32_t i = f->K.index[k];
            size[i] += fabsl((long double)f->K.value[k] * x[j]);
            if (i != j) size[j] += fabsl((long double)f->K.value[k] * x[i]);
        }
    for (int32_t i = 0; i < f->m; i++) {
        double shift = relaxed ? f->relax[i] : 0;
        bool equality = f->type[i] == 1 || shift != 0;
        long double s = (long double)f->c[i] + shift;
        for (int32_t k = f->J.start[i]; k < f->J.start[i + 1]; k++) {
            int32_t j = f->J.index[k];
            s -= (long double)f->J.value[k] * x[j];
            r[j] += (long double)f->J.value[k] * lam[i];
            size[j] += fabsl((long double)f->J.value[k] * lam[i]);
        }
        double violation = (double)(equality ? fabsl(s) : s < 0 || isnan(s) ? -s : 0);
        out.prim = most(out.prim, violation / (g->kappa[i] * g->scale));
        if (!equality)
            out.dual = most(out.dual, !(lam[i] >= 0) ? -lam[i] * g->kappa[i] / g->scale : 0);
        comp += fabsl(lam[i] * s);
    }
    long double largest = 0;
    for (size_t i = 0; i < n; i++)
        if (size[i] > largest) largest = size[i];
    for (size_t i = 0; i < n; i++) {
        narrow[i] = (double)r[i];
        long double against = fmaxl(size[i], 1e-6L * largest);
        if (r[i] != 0) out.stat_cw = most(out.stat_cw, (double)(fabsl(r[i]) / against));
    }
    out.stat = inverse_norm(g, narrow) / g->scale;
    out.comp = (double)(comp / g->scale / g->scale);
    out.distance = energy_norm(f, d, Kd) / g->scale;
    *ret = out;
    qpc_free(work);
    qpc_free(narrow);
    return QPC_OK;
}

// ---- LCP ----

qpc_status qp_score_lcp(const qp_ground *g, const double *x, const double *f, qp_score *ret,
                        qpc_error *err) {
    const qp_file *p = g->file;
    long double *dv = qpc_alloc_array((size_t)p->n, sizeof *dv), comp = 0, stat = 0, distance = 0;
    if (dv == NULL) return NO_MEMORY(err);
    qp_score out = {0};
    double S = g->scale;
    for (int32_t j = 0; j < p->n; j++) dv[j] = 0;
    for (int32_t i = 0; i < p->m; i++) {
        long double w = p->b[i];
        double diagonal = 0;
        for (int32_t k = p->A.start[i]; k < p->A.start[i + 1]; k++) {
            w += (long double)p->A.value[k] * f[p->A.index[k]];
            if (p->A.index[k] == i) diagonal = p->A.value[k];
        }
        double size = diagonal > 0 ? sqrt(diagonal) : 1;
        out.prim = most(out.prim, (double)(w >= 0 ? 0 : -w) / (size * S));
        out.dual = most(out.dual, f[i] >= 0 ? 0 : -f[i] * size / S);
        out.w_distance = most(out.w_distance, (double)fabsl(w - p->w[i]) / (size * S));
        comp += fabsl(f[i] * w);
        for (int32_t k = p->J.start[i]; k < p->J.start[i + 1]; k++)
            dv[p->J.index[k]] += (long double)p->J.value[k] * f[i] / p->mass[p->J.index[k]];
    }
    for (int32_t j = 0; j < p->n; j++) {
        long double miss = x[j] - dv[j], off = p->velocity[j] + dv[j] - p->v_plus[j];
        stat += miss * miss * p->mass[j];
        distance += off * off * p->mass[j];
    }
    out.stat = (double)sqrtl(stat) / S;
    out.comp = (double)(comp / S / S);
    out.distance = (double)sqrtl(distance) / S;
    *ret = out;
    qpc_free(dv);
    return QPC_OK;
}

// ---- friction ----

/// The nearest point of the cone |r_T| <= mu r_N.
static void project(double mu, const long double *v, long double *p) {
    long double t = hypotl(v[1], v[2]);
    if (t <= mu * v[0]) {
        memcpy(p, v, 3 * sizeof *p);
    } else if (mu * t <= -v[0]) {
        p[0] = p[1] = p[2] = 0;
    } else {
        long double normal = (v[0] + mu * t) / (1 + (long double)mu * mu);
        p[0] = normal;
        p[1] = mu * normal * v[1] / t;
        p[2] = mu * normal * v[2] / t;
    }
}

qpc_status qp_score_friction(const qp_ground *g, const double *r, qp_score *ret, qpc_error *err) {
    (void)err;
    const qp_file *f = g->file;
    qp_score out = {0};
    long double natural = 0, comp = 0, defect = 0;
    double S = g->scale;
    for (int32_t c = 0; c < f->m; c++) {
        long double u[3], v[3], p[3];
        const double *rc = r + 3 * (size_t)c;
        double rho = g->rho[c], mu = f->mu[c];
        for (int a = 0; a < 3; a++) {
            int32_t i = 3 * c + a;
            u[a] = f->q[i];
            for (int32_t k = f->A.start[i]; k < f->A.start[i + 1]; k++)
                u[a] += (long double)f->A.value[k] * r[f->A.index[k]];
        }
        long double sliding = hypotl(u[1], u[2]),
                    push = hypotl((long double)rc[1], (long double)rc[2]);
        for (int a = 0; a < 3; a++) v[a] = rc[a] - rho * (u[a] + (a == 0 ? mu * sliding : 0));
        project(mu, v, p);
        for (int a = 0; a < 3; a++) natural += (rc[a] - p[a]) * (rc[a] - p[a]) / rho;
        out.penetration = most(out.penetration, (double)(u[0] >= 0 ? 0 : -u[0]) * sqrt(rho) / S);
        long double beyond = push - mu * (long double)rc[0];
        out.cone = most(out.cone, (double)(beyond <= 0 ? 0 : beyond) / (sqrt(rho) * S));
        comp += fabsl(rc[0] * u[0]);
        defect += fabsl(mu * rc[0] * sliding + rc[1] * u[1] + rc[2] * u[2]);
    }
    out.natural = (double)(sqrtl(natural) / S);
    out.comp = (double)(comp / S / S);
    out.dissipation = (double)(defect / S / S);
    *ret = out;
    return QPC_OK;
}

/// The largest eigenvalue of a symmetric 3 x 3 block, by its characteristic polynomial.
static double largest_eigenvalue(double w[3][3]) {
    double mean = (w[0][0] + w[1][1] + w[2][2]) / 3, off = 0, spread = 0;
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) {
            double d = w[i][j] - (i == j ? mean : 0);
            spread += d * d;
            if (i != j) off += d * d;
        }
    if (off == 0) return fmax(w[0][0], fmax(w[1][1], w[2][2]));
    double p = sqrt(spread / 6), B[3][3];
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) B[i][j] = (w[i][j] - (i == j ? mean : 0)) / p;
    double det = B[0][0] * (B[1][1] * B[2][2] - B[1][2] * B[2][1]) -
                 B[0][1] * (B[1][0] * B[2][2] - B[1][2] * B[2][0]) +
                 B[0][2] * (B[1][0] * B[2][1] - B[1][1] * B[2][0]);
    double half = fmin(1, fmax(-1, det / 2));
    return mean + 2 * p * cos(acos(half) / 3);
}

static qpc_status find_rho(qp_ground *g, qpc_error *err) {
    const qp_file *f = g->file;
    long double scale2 = 0;
    g->rho = qpc_alloc_array((size_t)f->m, sizeof *g->rho);
    if (g->rho == NULL) return NO_MEMORY(err);
    for (int32_t c = 0; c < f->m; c++) {
        double block[3][3] = {{0}}, even[3][3];
        for (int a = 0; a < 3; a++)
            for (int32_t k = f->A.start[3 * c + a]; k < f->A.start[3 * c + a + 1]; k++)
                if (f->A.index[k] / 3 == c) block[a][f->A.index[k] % 3] = f->A.value[k];
        for (int a = 0; a < 3; a++)
            for (int b = 0; b < 3; b++) even[a][b] = 0.5 * (block[a][b] + block[b][a]);
        double largest = largest_eigenvalue(even);
        if (!(largest > 0 && isfinite(largest)))
            return qpc_fail(err, QPC_ERR_CORRUPT,
                            "W_x: the block of contact %d has no positive eigenvalue", c);
        g->rho[c] = 1 / largest;
        for (int a = 0; a < 3; a++)
            scale2 += (long double)f->q[3 * c + a] * f->q[3 * c + a] / largest;
    }
    g->scale = fmax((double)sqrtl(scale2), 1e-140);
    return QPC_OK;
}

// ---- the file's own claims ----

static qpc_status claim(const char *name, double limit, double value, qpc_error *err) {
    if (value <= limit) return QPC_OK;
    return qpc_fail(err, QPC_ERR_CORRUPT,
                    "what is stored is not a solution: %s %.2g, must be at most %g", name, value,
                    limit);
}

static qpc_status check_scale(const qp_ground *g, qpc_error *err) {
    double stored = fmax(g->file->scale, 1e-140);
    if (fabs(stored - g->scale) <= 1e-6 * g->scale) return QPC_OK;
    return qpc_fail(err, QPC_ERR_CORRUPT, "S[0]: %.9g, but it is %.9g", g->file->scale, g->scale);
}

static qpc_status find_kappa(qp_ground *g, double *work, qpc_error *err) {
    const qp_file *f = g->file;
    for (int32_t i = 0; i < f->m; i++) {
        long double sum = 0;
        g->kappa[i] = 1;
        if (!is_empty(&f->J, i)) {
            int32_t first = f->J.index[f->J.start[i]];
            memset(work, 0, (size_t)f->n * sizeof *work);
            for (int32_t k = f->J.start[i]; k < f->J.start[i + 1]; k++)
                work[f->J.index[k]] = f->J.value[k];
            qp_cholesky_forward(&g->L, first, work);
            for (int32_t j = first; j < f->n; j++) sum += (long double)work[j] * work[j];
            g->kappa[i] = (double)sqrtl(sum);
        }
        if (!(fabs(g->kappa[i] - f->kappa[i]) <= 1e-6 * g->kappa[i]))
            return qpc_fail(err, QPC_ERR_CORRUPT, "kappa[%d]: %.9g, but K and J give %.9g", i,
                            f->kappa[i], g->kappa[i]);
    }
    return QPC_OK;
}

/// relax_s and farkas are what they are said to be.
static qpc_status check_proofs(const qp_ground *g, double *work, qpc_error *err) {
    const qp_file *f = g->file;
    for (int which = 0; which < 2; which++) {
        const double *y = which == 0 ? f->relax : f->farkas;
        const char *name = which == 0 ? "relax_s" : "farkas";
        long double cy = 0, y2 = 0, size = 0;
        memset(work, 0, (size_t)f->n * sizeof *work);
        for (int32_t i = 0; i < f->m; i++) {
            cy += (long double)y[i] * f->c[i];
            y2 += (long double)y[i] * y[i];
            size += fabsl(y[i] * (long double)g->kappa[i]);
            for (int32_t k = f->J.start[i]; k < f->J.start[i + 1]; k++)
                work[f->J.index[k]] += y[i] * f->J.value[k];
        }
        for (int32_t i = 0; i < f->m; i++) // round-off below zero is in
            if (f->type[i] == 0 && -y[i] * g->kappa[i] > 1e-12L * size)
                return qpc_fail(err, QPC_ERR_CORRUPT, "%s[%d]: %g, must not be negative", name, i,
                                y[i]);
        double left = (double)(inverse_norm(g, work) / size);
        if (!(left <= 1e-9 && cy < 0) || (which == 0 && !(fabsl(cy + y2) <= 1e-9L * y2)))
            return qpc_fail(err, QPC_ERR_CORRUPT, "%s: proves nothing: |J'y| %.2g, c'y %g", name,
                            left, (double)cy);
    }
    return QPC_OK;
}

/// 1/2 x'Kx - b'x of the stored solution, to 1e-9 S^2. wide (2n): scratch.
static qpc_status check_objective(const qp_ground *g, long double *wide, qpc_error *err) {
    const qp_file *f = g->file;
    long double sum = 0;
    if (f->objective == NULL) return QPC_OK;
    for (int32_t i = 0; i < f->n; i++) wide[i] = f->x[i];
    product(f, wide, wide + f->n);
    for (int32_t i = 0; i < f->n; i++) sum += wide[i] * (wide[f->n + i] / 2 - f->b[i]);
    if (fabsl(sum - f->objective[0]) <= 1e-9L * g->scale * g->scale) return QPC_OK;
    return qpc_fail(err, QPC_ERR_CORRUPT, "objective[0]: %.9g, but x has %.9g", f->objective[0], (double)sum);
}

static qpc_status ground_of_qp(qp_ground *g, qpc_error *err) {
    const qp_file *f = g->file;
    size_t n = (size_t)f->n;
    qpc_status status = qp_cholesky_init(&g->L, f->n, &f->K, err);
    if (status != QPC_OK) return status;
    g->kappa = qpc_alloc_array((size_t)f->m, sizeof *g->kappa);
    double *work = qpc_alloc_array(n, sizeof *work);
    long double *wide = qpc_alloc_array(2 * n, sizeof *wide);
    if (g->kappa == NULL || work == NULL || wide == NULL) status = NO_MEMORY(err);
    if (status == QPC_OK) {
        memcpy(work, f->b, n * sizeof *work);
        for (size_t i = 0; i < n; i++) wide[i] = f->x[i];
        g->scale = fmax(1e-140, fmax(inverse_norm(g, work), energy_norm(f, wide, wide + n)));
        status = check_scale(g, err);
    }
    if (status == QPC_OK) status = find_kappa(g, work, err);
    if (status == QPC_OK) status = f->infeasible ? check_proofs(g, work, err) : check_objective(g, wide, err);
    qp_score s;
    if (status == QPC_OK) status = qp_score_qp(g, f->x, f->lam, f->infeasible, &s, err);
    if (status == QPC_OK) status = claim("stat", 1e-9, s.stat, err);
    if (status == QPC_OK) status = claim("prim", 1e-9, s.prim, err);
    if (status == QPC_OK) status = claim("dual", 1e-9, s.dual, err);
    if (status == QPC_OK) status = claim("comp", 1e-9, s.comp, err);
    qpc_free(work);
    qpc_free(wide);
    return status;
}

/// A is J diag(1/M) J': both sides of a vector without zeros.
static qpc_status check_operator(const qp_file *f, qpc_error *err) {
    long double *z = qpc_calloc((size_t)f->n, sizeof *z);
    if (z == NULL) return NO_MEMORY(err);
    for (int32_t i = 0; i < f->m; i++)
        for (int32_t k = f->J.start[i]; k < f->J.start[i + 1]; k++)
            z[f->J.index[k]] += (long double)f->J.value[k] * (1 + i % 7) / f->mass[f->J.index[k]];
    qpc_status status = QPC_OK;
    for (int32_t i = 0; status == QPC_OK && i < f->m; i++) {
        long double left = 0, right = 0, size = 0;
        for (int32_t k = f->A.start[i]; k < f->A.start[i + 1]; k++) {
            left += (long double)f->A.value[k] * (1 + f->A.index[k] % 7);
            size += fabsl((long double)f->A.value[k] * (1 + f->A.index[k] % 7));
        }
        for (int32_t k = f->J.start[i]; k < f->J.start[i + 1]; k++) {
            right += (long double)f->J.value[k] * z[f->J.index[k]];
            size += fabsl((long double)f->J.value[k] * z[f->J.index[k]]);
        }
        if (!(fabsl(left - right) <= 1e-9L * size))
            status = qpc_fail(err, QPC_ERR_CORRUPT, "A_x: row %d is not that of J diag(1/M) J'", i);
    }
    qpc_free(z);
    return status;
}

/// b = (1 + eps) J v.
static qpc_status check_restitution(const qp_file *f, qpc_error *err) {
    for (int32_t i = 0; f->eps != NULL && i < f->m; i++) {
        long double sum = 0, size = 0;
        for (int32_t k = f->J.start[i]; k < f->J.start[i + 1]; k++) {
            long double part = (1 + (long double)f->eps[0]) * f->J.value[k] * f->velocity[f->J.index[k]];
            sum += part;
            size += fabsl(part);
        }
        if (!(fabsl(f->b[i] - sum) <= 1e-9L * size))
            return qpc_fail(err, QPC_ERR_CORRUPT, "b[%d]: %.9g, but (1 + eps) J v is %.9g", i, f->b[i], (double)sum);
    }
    return QPC_OK;
}

static qpc_status ground_of_lcp(qp_ground *g, qpc_error *err) {
    const qp_file *f = g->file;
    long double sum = 0;
    for (int32_t j = 0; j < f->n; j++)
        sum += (long double)f->velocity[j] * f->velocity[j] * f->mass[j];
    g->scale = fmax((double)sqrtl(sum), 1e-140);
    qpc_status status = check_scale(g, err);
    if (status == QPC_OK) status = check_operator(f, err);
    if (status == QPC_OK) status = check_restitution(f, err);
    double *dv = qpc_alloc_array((size_t)f->n, sizeof *dv);
    if (status == QPC_OK && dv == NULL) status = NO_MEMORY(err);
    qp_score s;
    for (int32_t j = 0; status == QPC_OK && j < f->n; j++) dv[j] = f->v_plus[j] - f->velocity[j];
    if (status == QPC_OK) status = qp_score_lcp(g, dv, f->f, &s, err);
    if (status == QPC_OK) status = claim("w >= 0", 1e-9, s.prim, err);
    if (status == QPC_OK) status = claim("f >= 0", 1e-9, s.dual, err);
    if (status == QPC_OK) status = claim("f'w", 1e-9, s.comp, err);
    if (status == QPC_OK) status = claim("w - (A f + b)", 1e-9, s.w_distance, err);
    if (status == QPC_OK) status = claim("v_plus - (v + M^-1 J'f)", 1e-9, s.stat, err);
    qpc_free(dv);
    return status;
}

/// u is W r + q, and each contact does what its state says: 0 open, 1 sticks, 2 slips.
static qpc_status check_motion(const qp_ground *g, qpc_error *err) {
    const qp_file *f = g->file;
    double S = g->scale, limit = 1e-9;
    if (f->u == NULL || f->state == NULL) return QPC_OK; // a file need not have them
    for (int32_t c = 0; c < f->m; c++) {
        const double *r = f->r + 3 * (size_t)c, *u = f->u + 3 * (size_t)c;
        double size = sqrt(g->rho[c]), push = hypot(r[1], r[2]);
        for (int32_t i = 3 * c; i < 3 * c + 3; i++) {
            long double v = f->q[i];
            for (int32_t k = f->A.start[i]; k < f->A.start[i + 1]; k++) v += (long double)f->A.value[k] * f->r[f->A.index[k]];
            if (!(fabsl(v - f->u[i]) * size <= limit * S))
                return qpc_fail(err, QPC_ERR_CORRUPT, "u[%d]: %.9g, but W r + q is %.9g", i, f->u[i], (double)v);
        }
        double off = f->state[c] == 0   ? fmax(fabs(r[0]), push) / size // no force
                     : f->state[c] == 1 ? hypot(u[1], u[2]) * size      // no motion
                                        : fabs(push - f->mu[c] * r[0]) / size;
        if (!(off <= limit * S))
            return qpc_fail(err, QPC_ERR_CORRUPT, "state[%d]: %d, but r and u say otherwise (%.2g S)", c, f->state[c], off / S);
    }
    return QPC_OK;
}

qpc_status qp_ground_init(qp_ground *g, const qp_file *file, qpc_error *err) {
    *g = (qp_ground){.file = file, .scale = 1e-140};
    qpc_status status;
    qp_score s;
    switch (file->kind) {
    case QP_KIND_QP:
        status = ground_of_qp(g, err);
        break;
    case QP_KIND_LCP:
        status = ground_of_lcp(g, err);
        break;
    case QP_KIND_FRICTION:
    default:
        status = find_rho(g, err);
        if (status == QPC_OK) status = check_scale(g, err);
        if (status == QPC_OK) status = qp_score_friction(g, file->r, &s, err);
        if (status == QPC_OK) status = claim("natural residual", 1e-9, s.natural, err);
        if (status == QPC_OK) status = check_motion(g, err);
        break;
    }
    if (status != QPC_OK) qp_ground_fini(g);
    return status;
}

void qp_ground_fini(qp_ground *g) {
    if (g == NULL) return;
    qp_cholesky_fini(&g->L);
    qpc_free(g->kappa);
    qpc_free(g->rho);
    *g = (qp_ground){0};
}

double qp_score_relaxation(const qp_ground *g, const double *s) {
    long double off = 0, size = 0;
    for (int32_t i = 0; i < g->file->m; i++) {
        long double want = g->file->relax[i], d = s[i] - want;
        off += d * d;
        size += want * want;
    }
    return (double)sqrtl(off / size);
}
