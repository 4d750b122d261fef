/// Some tetrahedra at once, for one instruction set. Included by tets_forces.c with TARGET, NAME(x), and vectors VEC and
/// MASK of LANES doubles and comparisons; no include guard.
/// Lanes never meet and nothing is fused, so an element gives the same bits next to any others and on every processor.
/// 3x3 matrices by rows.

#define INLINE static inline TARGET QPC_ALWAYS_INLINE
#define PICK(m, a, b) ((VEC)(((MASK)(a) & (m)) | ((MASK)(b) & ~(m))))

typedef struct NAME(batch) {
    VEC F[9], g[9]; // B of each: gradients of the hat functions of nodes 1 to 3
    VEC volume, mu, lambda;
    int32_t material, count, first;
} NAME(batch);

INLINE void NAME(root)(VEC *a) {
    for (int l = 0; l < LANES; l++) (*a)[l] = sqrt((*a)[l]);
}

INLINE bool NAME(any)(const MASK *m) {
    int64_t all = 0;
    for (int l = 0; l < LANES; l++) all |= (*m)[l];
    return all != 0;
}

/// Columns p and q of B are turned until they are orthogonal, those of V alike; `moved`: lanes where they were not.
INLINE void NAME(turn)(VEC B[9], VEC V[9], int p, int q, MASK *moved) {
    VEC a = B[p] * B[p] + B[3 + p] * B[3 + p] + B[6 + p] * B[6 + p];
    VEC b = B[q] * B[q] + B[3 + q] * B[3 + q] + B[6 + q] * B[6 + q];
    VEC c = B[p] * B[q] + B[3 + p] * B[3 + q] + B[6 + p] * B[6 + q];
    MASK turns = c * c > ORTHOGONAL * ORTHOGONAL * (a * b);
    *moved |= turns;
    VEC d = b - a, e = 2 * c, r = d * d + e * e;
    NAME(root)(&r);
    VEC t = e / (PICK(d < 0, -d, d) + r);
    t = PICK(d < 0, -t, t);
    VEC cosine = 1 + t * t;
    NAME(root)(&cosine);
    cosine = 1 / cosine;
    VEC sine = t * cosine, zero = {0}, one = zero + 1;
    cosine = PICK(turns, cosine, one);
    sine = PICK(turns, sine, zero);
    for (int k = 0; k < 9; k += 3) {
        VEC bp = B[k + p], vp = V[k + p];
        B[k + p] = cosine * bp - sine * B[k + q];
        B[k + q] = sine * bp + cosine * B[k + q];
        V[k + p] = cosine * vp - sine * V[k + q];
        V[k + q] = sine * vp + cosine * V[k + q];
    }
}

/// Column p becomes the longer one; the sign keeps the determinants.
INLINE void NAME(sort)(VEC B[9], VEC V[9], int p, int q) {
    VEC a = B[p] * B[p] + B[3 + p] * B[3 + p] + B[6 + p] * B[6 + p];
    VEC b = B[q] * B[q] + B[3 + q] * B[3 + q] + B[6 + q] * B[6 + q];
    MASK change = a < b;
    for (int k = 0; k < 9; k += 3) {
        VEC bp = B[k + p], vp = V[k + p];
        B[k + p] = PICK(change, B[k + q], bp);
        B[k + q] = PICK(change, -bp, B[k + q]);
        V[k + p] = PICK(change, V[k + q], vp);
        V[k + q] = PICK(change, -vp, V[k + q]);
    }
}

/// F = U diag(s) V', U and V rotations, s1 >= s2 >= |s3| (TS3): one-sided Jacobi, the last column of U by the others.
INLINE void NAME(decompose)(const VEC F[9], VEC U[9], VEC s[3], VEC V[9]) {
    VEC B[9], zero = {0}, one = zero + 1;
    for (int k = 0; k < 9; k++) {
        B[k] = F[k];
        V[k] = k % 4 == 0 ? one : zero;
    }
    for (int sweep = 0; sweep < SWEEPS; sweep++) {
        MASK moved = {0};
        NAME(turn)(B, V, 0, 1, &moved);
        NAME(turn)(B, V, 0, 2, &moved);
        NAME(turn)(B, V, 1, 2, &moved);
        if (!NAME(any)(&moved)) break;
    }
    NAME(sort)(B, V, 0, 1);
    NAME(sort)(B, V, 0, 2);
    NAME(sort)(B, V, 1, 2);
    s[0] = B[0] * B[0] + B[3] * B[3] + B[6] * B[6];
    NAME(root)(&s[0]);
    for (int k = 0; k < 9; k += 3) U[k] = B[k] / s[0];
    VEC along = U[0] * B[1] + U[3] * B[4] + U[6] * B[7];
    for (int k = 0; k < 9; k += 3) U[k + 1] = B[k + 1] - along * U[k];
    s[1] = U[1] * U[1] + U[4] * U[4] + U[7] * U[7];
    NAME(root)(&s[1]);
    for (int k = 0; k < 9; k += 3) U[k + 1] /= s[1];
    for (int l = 0; l < LANES; l++)
        if (!(s[1][l] > NEEDLE * s[0][l])) {
            double a[3] = {U[0][l], U[3][l], U[6][l]}, b[3];
            complete_frame(s[0][l], a, b);
            s[1][l] = 0;
            for (int k = 0; k < 3; k++) {
                U[3 * k][l] = a[k];
                U[3 * k + 1][l] = b[k];
            }
        }
    U[2] = U[3] * U[7] - U[6] * U[4];
    U[5] = U[6] * U[1] - U[0] * U[7];
    U[8] = U[0] * U[4] - U[3] * U[1];
    s[2] = U[2] * B[2] + U[5] * B[5] + U[8] * B[8];
}

/// E = F - R with R the nearest rotation (TS8), without the stretches; *ret_sure: where it is well determined.
INLINE void NAME(stretch)(const VEC F[9], VEC E[9], MASK *ret_sure) {
    VEC C[9], G[6], n = {0}, c = {0}, zero = {0};
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) {
            int p = 3 * ((i + 1) % 3), q = 3 * ((i + 2) % 3), u = (j + 1) % 3, v = (j + 2) % 3;
            C[3 * i + j] = F[p + u] * F[q + v] - F[p + v] * F[q + u];
        }
    for (int k = 0; k < 9; k++) {
        n += F[k] * F[k];
        c += C[k] * C[k];
    }
    VEC det = F[0] * C[0] + F[1] * C[1] + F[2] * C[2], sum = 3 * n;
    NAME(root)(&sum);
    for (int step = 0; step < NEWTON_MOST; step++) {
        VEC w = sum * sum - n, slope = 4 * sum * w - 8 * det, d = (w * w - 8 * sum * det - 4 * c) / slope;
        MASK moves = (d > ROUNDING * sum) & (slope > zero);
        sum = PICK(moves, sum - d, sum);
        if (!NAME(any)(&moves)) break;
    }
    VEC kappa = 0.5 * (sum * sum - n), zeta = kappa * sum - det, a = kappa + n;
    for (int i = 0; i < 3; i++) // F'F: xx yy zz yz zx xy
        for (int k = 0, p = i, q = i; k < 2; k++, p = (i + 1) % 3, q = (i + 2) % 3)
            G[3 * k + i] = F[p] * F[q] + F[3 + p] * F[3 + q] + F[6 + p] * F[6 + q];
    for (int k = 0; k < 9; k += 3) {
        const VEC *f = F + k, *o = C + k;
        E[k] = f[0] - (a * f[0] + sum * o[0] - (f[0] * G[0] + f[1] * G[5] + f[2] * G[4])) / zeta;
        E[k + 1] = f[1] - (a * f[1] + sum * o[1] - (f[0] * G[5] + f[1] * G[1] + f[2] * G[3])) / zeta;
        E[k + 2] = f[2] - (a * f[2] + sum * o[2] - (f[0] * G[4] + f[1] * G[3] + f[2] * G[2])) / zeta;
    }
    *ret_sure = zeta > DETERMINED * sum * sum * sum;
}

/// The same by the stretches where it is not.
INLINE void NAME(surely_stretch)(const VEC F[9], VEC E[9]) {
    MASK sure;
    NAME(stretch)(F, E, &sure);
    MASK unsure = ~sure;
    if (!NAME(any)(&unsure)) return;
    VEC U[9], s[3], V[9];
    NAME(decompose)(F, U, s, V);
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) {
            VEC R = U[3 * i] * V[3 * j] + U[3 * i + 1] * V[3 * j + 1] + U[3 * i + 2] * V[3 * j + 2];
            E[3 * i + j] = PICK(sure, E[3 * i + j], F[3 * i + j] - R);
        }
}

// ---- the materials by principal stretches ----

/// first: dW/ds (TS4, TS5); A (xx yy zz yz zx xy): its derivative; twist and flip (TS6). Clamped.
typedef struct NAME(moduli) {
    VEC first[3], A[6], twist[3], flip[3];
} NAME(moduli);

INLINE void NAME(neo_hookean)(const NAME(batch) *t, const VEC s[3], NAME(moduli) *m) {
    VEC mu = 4.0 / 3 * t->mu, lambda = t->lambda + 5.0 / 6 * t->mu, zero = {0};
    VEC q = 1 / (s[0] * s[0] + s[1] * s[1] + s[2] * s[2] + 1), a = mu * (1 - q), c[3];
    VEC b = lambda * (s[0] * s[1] * s[2] - 1) - 0.75 * mu, w = 2 * mu * q * q;
    for (int k = 0; k < 3; k++) c[k] = s[(k + 1) % 3] * s[(k + 2) % 3];
    for (int k = 0; k < 3; k++) {
        int i = (k + 1) % 3, j = (k + 2) % 3;
        m->first[k] = a * s[k] + b * c[k];
        m->A[k] = a + w * s[k] * s[k] + lambda * c[k] * c[k];
        m->A[3 + k] = w * s[i] * s[j] + lambda * c[i] * c[j] + b * s[k];
        VEC twist = a + b * s[k], flip = a - b * s[k];
        m->twist[k] = PICK(twist < 0, zero, twist);
        m->flip[k] = PICK(flip < 0, zero, flip);
    }
    VEC minor = m->A[0] * m->A[1] - m->A[5] * m->A[5];
    VEC det = m->A[2] * minor - m->A[0] * m->A[3] * m->A[3] - m->A[1] * m->A[4] * m->A[4] +
               2 * m->A[3] * m->A[4] * m->A[5];
    for (int l = 0; l < LANES; l++)
        if (!(m->A[0][l] > 0) || !(minor[l] > 0) || !(det[l] > 0)) {
            double A[6];
            for (int k = 0; k < 6; k++) A[k] = m->A[k][l];
            clamp_symmetric(A);
            for (int k = 0; k < 6; k++) m->A[k][l] = A[k];
        }
}

// ---- what a batch is asked for ----

/// W of stable neo-Hookean elements by G = R'F - 1, in which nothing of first order is left to cancel; *ret_near: where G is small (TS9).
INLINE void NAME(near_rest)(const NAME(batch) *t, const VEC *mu, const VEC *lambda, VEC *ret, MASK *ret_near) {
    VEC E[9], G[9], square = {0}, curve, zero = {0};
    NAME(surely_stretch)(t->F, E);
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) {
            VEC sum = {0};
            for (int k = 0; k < 9; k += 3) sum += (t->F[k + i] - E[k + i]) * E[k + j];
            G[3 * i + j] = sum;
        }
    for (int k = 0; k < 9; k++) square += G[k] * G[k];
    VEC trace = G[0] + G[4] + G[8];
    VEC pairs = (G[0] * G[4] - G[1] * G[3]) + (G[4] * G[8] - G[5] * G[7]) + (G[8] * G[0] - G[6] * G[2]);
    VEC det = G[0] * (G[4] * G[8] - G[5] * G[7]) - G[1] * (G[3] * G[8] - G[5] * G[6]) + G[2] * (G[3] * G[7] - G[4] * G[6]);
    VEC y = 0.25 * (2 * trace + square), grows = trace + pairs + det;
    for (int l = 0; l < LANES; l++) curve[l] = less_its_log(y[l]);
    *ret_near = square < zero + NEAR_REST * NEAR_REST;
    *ret = 0.5 * *mu * curve + 0.375 * *mu * (square - 2 * (pairs + det)) + 0.5 * *lambda * grows * grows;
}

/// Energy of each, J.
INLINE void NAME(energy)(const NAME(batch) *t, VEC *ret) {
    if (t->material == QPC_TET_COROTATIONAL) {
        VEC E[9], square = {0}, trace = {0};
        NAME(surely_stretch)(t->F, E);
        for (int k = 0; k < 9; k++) {
            square += E[k] * E[k];
            trace += E[k] * (t->F[k] - E[k]);
        }
        *ret = t->volume * (t->mu * square + 0.5 * t->lambda * trace * trace);
        return;
    }
    const VEC *F = t->F;
    VEC mu = 4.0 / 3 * t->mu, lambda = t->lambda + 5.0 / 6 * t->mu, d = {0}, zero = {0}, logs;
    d -= 3;
    for (int k = 0; k < 9; k++) d += F[k] * F[k];
    for (int l = 0; l < LANES; l++) logs[l] = log1p(0.25 * d[l]);
    VEC J = F[0] * (F[4] * F[8] - F[5] * F[7]) - F[1] * (F[3] * F[8] - F[5] * F[6]) +
             F[2] * (F[3] * F[7] - F[4] * F[6]) - 1;
    VEC W = 0.5 * mu * (d - logs) + 0.5 * lambda * J * J - 0.75 * mu * J;
    MASK may = (d < zero + 4 * NEAR_REST) & (d > zero - 4 * NEAR_REST), near; // |d| <= 2 sqrt(3) |G| + |G|^2
    if (NAME(any)(&may)) {
        VEC better;
        NAME(near_rest)(t, &mu, &lambda, &better, &near);
        near &= may;
        W = PICK(near, better, W);
    }
    *ret = t->volume * W;
}

/// P = dW/dF times the volume, by rows.
INLINE void NAME(stress)(const NAME(batch) *t, VEC P[9]) {
    const VEC *F = t->F;
    if (t->material == QPC_TET_COROTATIONAL) {
        VEC E[9], trace = {0}, two = 2 * t->volume * t->mu;
        NAME(surely_stretch)(F, E);
        for (int k = 0; k < 9; k++) trace += E[k] * (F[k] - E[k]);
        trace *= t->volume * t->lambda;
        for (int k = 0; k < 9; k++) P[k] = two * E[k] + trace * (F[k] - E[k]);
        return;
    }
    VEC C[9], norm = {0}, mu = 4.0 / 3 * t->mu, lambda = t->lambda + 5.0 / 6 * t->mu;
    for (int k = 0; k < 9; k++) norm += F[k] * F[k];
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) {
            int p = 3 * ((i + 1) % 3), q = 3 * ((i + 2) % 3), u = (j + 1) % 3, v = (j + 2) % 3;
            C[3 * i + j] = F[p + u] * F[q + v] - F[p + v] * F[q + u];
        }
    VEC J = F[0] * C[0] + F[1] * C[1] + F[2] * C[2];
    VEC a = t->volume * mu * (1 - 1 / (norm + 1)), b = t->volume * (lambda * (J - 1) - 0.75 * mu);
    for (int k = 0; k < 9; k++) P[k] = a * F[k] + b * C[k];
}

/// vol U M U' for hat functions with gradients hi and hj in the frame of V (TS7).
INLINE void NAME(block)(const NAME(moduli) *m, const VEC plus[3], const VEC minus[3], const VEC U[9], const VEC hi[3],
                        const VEC hj[3], VEC H[9]) {
    VEC M[9], T[9], c0 = hi[0] * hj[0], c1 = hi[1] * hj[1], c2 = hi[2] * hj[2];
    M[0] = m->A[0] * c0 + plus[2] * c1 + plus[1] * c2;
    M[4] = m->A[1] * c1 + plus[2] * c0 + plus[0] * c2;
    M[8] = m->A[2] * c2 + plus[1] * c0 + plus[0] * c1;
    for (int k = 0; k < 3; k++) {
        int a = (k + 1) % 3, b = (k + 2) % 3;
        VEC ab = hi[a] * hj[b], ba = hi[b] * hj[a];
        M[3 * a + b] = m->A[3 + k] * ab + minus[k] * ba;
        M[3 * b + a] = m->A[3 + k] * ba + minus[k] * ab;
    }
    for (int i = 0; i < 9; i += 3)
        for (int j = 0; j < 3; j++) T[i + j] = U[i] * M[j] + U[i + 1] * M[3 + j] + U[i + 2] * M[6 + j];
    for (int i = 0; i < 9; i += 3)
        for (int j = 0; j < 3; j++) H[i + j] = T[i] * U[3 * j] + T[i + 1] * U[3 * j + 1] + T[i + 2] * U[3 * j + 2];
}

// ---- corotational elements, without the stretches ----

/// The clamped twists (TS6) in the world's axes, U diag(t) U' (xx yy zz yz zx xy), by the stretches; where `lanes`. R alike.
INLINE void NAME(twists_by_stretches)(const NAME(batch) *t, const MASK *lanes, VEC R[9], VEC T[6]) {
    VEC U[9], s[3], V[9], twist[3], two = 2 * t->mu, zero = {0};
    NAME(decompose)(t->F, U, s, V);
    VEC trace = (s[0] - 1) + (s[1] - 1) + (s[2] - 1);
    for (int k = 0; k < 3; k++) {
        VEC sum = s[(k + 1) % 3] + s[(k + 2) % 3], least = zero + TWIST_FLOOR;
        sum = PICK(sum < least, least, sum);
        twist[k] = two + (2 * t->lambda * trace - 2 * two) / sum;
        twist[k] = PICK(twist[k] < 0, zero, twist[k]);
    }
    for (int k = 0; k < 6; k++) {
        const VEC *p = U + 3 * SYM_ROW[k], *q = U + 3 * SYM_COLUMN[k];
        T[k] = PICK(*lanes, p[0] * twist[0] * q[0] + p[1] * twist[1] * q[1] + p[2] * twist[2] * q[2], T[k]);
    }
    for (int k = 0; k < 9; k++) {
        const VEC *p = U + k / 3 * 3, *q = V + k % 3 * 3;
        VEC own = p[0] * q[0] + p[1] * q[1] + p[2] * q[2] + 0 * s[0]; // no rotation without a finite stretch
        R[k] = PICK(*lanes, own, R[k]);
    }
}

/// Cofactors of a symmetric matrix (xx yy zz yz zx xy).
INLINE void NAME(cofactors)(const VEC A[6], VEC C[6]) {
    for (int k = 0; k < 3; k++) {
        int i = (k + 1) % 3, j = (k + 2) % 3;
        C[k] = A[i] * A[j] - A[3 + k] * A[3 + k];
        C[3 + k] = A[3 + i] * A[3 + j] - A[3 + k] * A[k];
    }
}

/// Negative eigenvalues of A (xx yy zz yz zx xy) become 0 (TS10).
INLINE void NAME(clamp)(VEC A[6]) {
    VEC B[6], C[6], zero = {0};
    NAME(cofactors)(A, C);
    VEC det = A[0] * C[0] + A[5] * C[5] + A[4] * C[4];
    MASK turned = det < zero;
    for (int k = 0; k < 6; k++) B[k] = PICK(turned, -A[k], A[k]);
    VEC trace = B[0] + B[1] + B[2], pairs = C[0] + C[1] + C[2], about = trace / 3;
    det = PICK(turned, -det, det);
    MASK lone = ~((trace > zero) & (pairs > zero));
    VEC radius = about * about - pairs / 3;
    radius = PICK(radius < zero, zero, radius);
    NAME(root)(&radius);
    VEC size = PICK(about < zero, -about, about) + 2 * radius, root = about + 2 * radius, slope;
    for (int step = 0; step < NEWTON_MOST; step++) {
        slope = (3 * root - 2 * trace) * root + pairs;
        VEC d = (((root - trace) * root + pairs) * root - det) / slope;
        MASK moves = lone & (slope > zero) & (d > ROUNDING * size);
        root = PICK(moves, root - d, root);
        if (!NAME(any)(&moves)) break;
    }
    slope = (3 * root - 2 * trace) * root + pairs;
    VEC part = PICK((slope > zero) & (root > zero), root / slope, zero);
    for (int k = 0; k < 6; k++) {
        VEC alone = part * (C[k] + root * (k < 3 ? B[k] + (root - trace) : B[k]));
        A[k] = PICK(lone, PICK(turned, A[k] + alone, alone), PICK(turned, zero, A[k]));
    }
}

/// E = F - R and the clamped twists in the world's axes.
INLINE void NAME(twists)(const NAME(batch) *t, VEC E[9], VEC T[6]) {
    VEC R[9], G[6], C[6], trace = {0};
    MASK sure;
    NAME(stretch)(t->F, E, &sure);
    for (int k = 0; k < 9; k++) R[k] = t->F[k] - E[k];
    for (int k = 0; k < 6; k++) {
        const VEC *p = t->F + 3 * SYM_ROW[k], *q = R + 3 * SYM_COLUMN[k];
        G[k] = -(p[0] * q[0] + p[1] * q[1] + p[2] * q[2]);
    }
    VEC sum = -(G[0] + G[1] + G[2]);
    for (int k = 0; k < 3; k++) G[k] += sum;
    for (int k = 0; k < 9; k++) trace += E[k] * R[k];
    NAME(cofactors)(G, C);
    VEC two = 2 * t->mu, part = (2 * t->lambda * trace - 2 * two) / (G[0] * C[0] + G[5] * C[5] + G[4] * C[4]);
    for (int k = 0; k < 6; k++) T[k] = k < 3 ? two + part * C[k] : part * C[k];
    NAME(clamp)(T);
    MASK unsure = ~(sure & (sum > 1));
    if (!NAME(any)(&unsure)) return;
    NAME(twists_by_stretches)(t, &unsure, R, T);
    for (int k = 0; k < 9; k++) E[k] = PICK(unsure, t->F[k] - R[k], E[k]);
}

/// Rows of T (symmetric, xx yy zz yz zx xy) times the cross of g.
INLINE void NAME(turn_rows)(const VEC T[6], const VEC g[3], VEC N[9]) {
    const VEC rows[9] = {T[0], T[5], T[4], T[5], T[1], T[3], T[4], T[3], T[2]};
    for (int r = 0; r < 9; r += 3)
        for (int c = 0; c < 3; c++) {
            int a = (c + 1) % 3, b = (c + 2) % 3;
            N[r + c] = rows[r + a] * g[b] - rows[r + b] * g[a];
        }
}

/// Block of H for gradients hi and hj in the world's axes, N being T times the cross of hj (TS10).
INLINE void NAME(turned_block)(const VEC *mu, const VEC *lambda, const VEC hi[3], const VEC hj[3], const VEC N[9], VEC H[9]) {
    VEC both = *mu * (hi[0] * hj[0] + hi[1] * hj[1] + hi[2] * hj[2]);
    for (int r = 0; r < 3; r++) {
        int a = (r + 1) % 3, b = (r + 2) % 3;
        VEC along = *lambda * hi[r], across = *mu * hj[r];
        for (int c = 0; c < 3; c++) {
            H[3 * r + c] = (hi[b] * N[3 * a + c] - hi[a] * N[3 * b + c]) + (along * hj[c] + across * hi[c]);
            if (r == c) H[3 * r + c] += both;
        }
    }
}

/// f of nodes 1 to 3, and the blocks of H between them: 11 22 33 12 13 23.
INLINE void NAME(corotational)(const NAME(batch) *t, VEC f[9], VEC H[10][9]) {
    static const int BLOCK[6] = {1, 2, 3, 7, 8, 9}, FIRST[6] = {0, 1, 2, 0, 0, 1}, SECOND[6] = {0, 1, 2, 1, 2, 2};
    VEC E[9], R[9], T[6], h[3][3], N[3][9], trace = {0};
    NAME(twists)(t, E, T);
    for (int k = 0; k < 9; k++) {
        R[k] = t->F[k] - E[k];
        trace += E[k] * R[k];
    }
    VEC mu = t->volume * t->mu, lambda = t->volume * t->lambda, half = 0.5 * t->volume;
    for (int k = 0; k < 6; k++) T[k] *= half;
    for (int i = 0; i < 3; i++) {
        const VEC *g = t->g + 3 * i;
        for (int r = 0; r < 3; r++) {
            const VEC *o = R + 3 * r, *e = E + 3 * r;
            h[i][r] = o[0] * g[0] + o[1] * g[1] + o[2] * g[2];
            f[3 * i + r] = -(2 * mu * (e[0] * g[0] + e[1] * g[1] + e[2] * g[2]) + lambda * trace * h[i][r]);
        }
        NAME(turn_rows)(T, h[i], N[i]);
    }
    for (int b = 0; b < 6; b++) NAME(turned_block)(&mu, &lambda, h[FIRST[b]], h[SECOND[b]], N[SECOND[b]], H[BLOCK[b]]);
}

// ---- any element ----

/// By the principal stretches: f of nodes 1 to 3, and the blocks of H between them.
INLINE void NAME(by_stretches)(const NAME(batch) *t, VEC f[9], VEC H[10][9]) {
    VEC U[9], s[3], V[9], h[3][3], plus[3], minus[3];
    NAME(moduli) m;
    NAME(decompose)(t->F, U, s, V);
    NAME(neo_hookean)(t, s, &m);
    for (int k = 0; k < 3; k++) {
        m.first[k] *= t->volume;
        m.A[k] *= t->volume;
        m.A[3 + k] *= t->volume;
        plus[k] = 0.5 * t->volume * (m.flip[k] + m.twist[k]);
        minus[k] = 0.5 * t->volume * (m.flip[k] - m.twist[k]);
    }
    for (int i = 0; i < 3; i++)
        for (int a = 0; a < 3; a++)
            h[i][a] = V[a] * t->g[3 * i] + V[3 + a] * t->g[3 * i + 1] + V[6 + a] * t->g[3 * i + 2];
    for (int i = 0; i < 3; i++)
        for (int r = 0; r < 3; r++)
            f[3 * i + r] = -(U[3 * r] * m.first[0] * h[i][0] + U[3 * r + 1] * m.first[1] * h[i][1] +
                             U[3 * r + 2] * m.first[2] * h[i][2]);
    for (int i = 0; i < 3; i++) NAME(block)(&m, plus, minus, U, h[i], h[i], H[1 + i]);
    NAME(block)(&m, plus, minus, U, h[0], h[1], H[7]);
    NAME(block)(&m, plus, minus, U, h[0], h[2], H[8]);
    NAME(block)(&m, plus, minus, U, h[1], h[2], H[9]);
}

/// f of nodes 1 to 3 and the blocks of H between nodes 0 to 3: diagonal 00 11 22 33, then 01 02 03 12 13 23.
INLINE void NAME(linearise)(const NAME(batch) *t, VEC f[9], VEC H[10][9]) {
    VEC corner[9];
    if (t->material == QPC_TET_COROTATIONAL) NAME(corotational)(t, f, H);
    else NAME(by_stretches)(t, f, H);
    // A motion of all VEC nodes alike changes nothing: rows of blocks sum to zero.
    for (int r = 0; r < 9; r++) {
        int rt = 3 * (r % 3) + r / 3;
        H[4][r] = -(H[1][r] + H[7][rt] + H[8][rt]);
        H[5][r] = -(H[7][r] + H[2][r] + H[9][rt]);
        H[6][r] = -(H[8][r] + H[9][r] + H[3][r]);
        corner[r] = -(H[4][r] + H[5][r] + H[6][r]);
    }
    for (int r = 0; r < 9; r++) H[0][r] = 0.5 * (corner[r] + corner[3 * (r % 3) + r / 3]);
}
