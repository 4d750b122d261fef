/// The loops over all elements for one instruction set: LANES at a time. Included after tets_lanes.h, which defines its
/// macros; takes them away.
///
/// Elements of one material that follow each other are gathered into lanes, computed, and added to the nodes one after the
/// other: sums have the order of the elements.

// ---- in and out of lanes ----

/// The elements from `first` on that make up a batch; lanes that are left over repeat the last one.
INLINE void NAME(gather)(const qpc_tets *tets, const double *x, int32_t first, NAME(batch) *t) {
    t->first = first;
    t->material = tets->material[first];
    t->count = 1;
    while (t->count < LANES && first + t->count < tets->count && tets->material[first + t->count] == t->material)
        t->count++;
    for (int l = 0; l < LANES; l++) {
        int32_t e = first + (l < t->count ? l : t->count - 1);
        const int32_t *node = tets->node + 4 * (int64_t)e;
        const double *B = tets->inverse + 9 * (int64_t)e, *o = x + 3 * (int64_t)node[0];
        double d[3][3];
        for (int k = 0; k < 3; k++)
            for (int r = 0; r < 3; r++) d[k][r] = x[3 * (int64_t)node[k + 1] + r] - o[r];
        for (int r = 0; r < 3; r++)
            for (int c = 0; c < 3; c++) t->F[3 * r + c][l] = d[0][r] * B[c] + d[1][r] * B[3 + c] + d[2][r] * B[6 + c];
        for (int k = 0; k < 9; k++) t->g[k][l] = B[k];
        t->volume[l] = tets->volume[e];
        t->mu[l] = tets->mu[e];
        t->lambda[l] = tets->lambda[e];
    }
}

/// to (3 n) += (nodes 1 to 3 by three) of each lane, minus their sum at node 0.
INLINE void NAME(scatter)(const qpc_tets *tets, const NAME(batch) *t, const VEC part[9], double *to) {
    for (int l = 0; l < t->count; l++) {
        const int32_t *node = tets->node + 4 * (int64_t)(t->first + l);
        double *o = to + 3 * (int64_t)node[0];
        for (int r = 0; r < 3; r++) o[r] -= part[r][l] + part[3 + r][l] + part[6 + r][l];
        for (int k = 0; k < 3; k++)
            for (int r = 0; r < 3; r++) to[3 * (int64_t)node[k + 1] + r] += part[3 * k + r][l];
    }
}

/// Hv of nodes 1 to 3; those of all VEC sum to zero.
INLINE void NAME(multiply)(const qpc_tets *tets, const NAME(batch) *t, VEC H[10][9], const double *v, VEC part[9]) {
    static const int BLOCK[3][3] = {{1, 7, 8}, {7, 2, 9}, {8, 9, 3}};
    VEC d[9];
    for (int l = 0; l < LANES; l++) {
        const int32_t *node = tets->node + 4 * (int64_t)(t->first + (l < t->count ? l : t->count - 1));
        for (int k = 0; k < 3; k++)
            for (int r = 0; r < 3; r++) d[3 * k + r][l] = v[3 * (int64_t)node[k + 1] + r] - v[3 * (int64_t)node[0] + r];
    }
    for (int i = 0; i < 3; i++)
        for (int r = 0; r < 3; r++) {
            VEC sum = {0};
            for (int j = 0; j < 3; j++) {
                const VEC *h = H[BLOCK[i][j]] + (i <= j ? 3 * r : r);
                int step = i <= j ? 1 : 3;
                for (int c = 0; c < 3; c++) sum += h[c * step] * d[3 * j + c];
            }
            part[3 * i + r] = sum;
        }
}

/// The lower triangle by columns: diagonal blocks, then edges, transposed where the first node is the higher one.
INLINE void NAME(add_to_columns)(const qpc_tets *tets, const NAME(batch) *t, VEC H[10][9], qpc_linsys *K) {
    static const int EDGES[6][2] = {{0, 1}, {0, 2}, {0, 3}, {1, 2}, {1, 3}, {2, 3}};
    for (int l = 0; l < t->count; l++) {
        const int32_t *node = tets->node + 4 * (int64_t)(t->first + l), *place = tets->place + 6 * (int64_t)(t->first + l);
        double *column[4][3]; // below the diagonal block
        for (int a = 0; a < 4; a++)
            for (int b = 0; b < 3; b++) {
                double *at = K->value + K->start[3 * (int64_t)node[a] + b];
                for (int r = b; r < 3; r++) at[r - b] += H[a][3 * r + b][l];
                column[a][b] = at + (3 - b);
            }
        for (int e = 0; e < 6; e++) {
            int a = EDGES[e][0], b = EDGES[e][1];
            const VEC *h = H[4 + e];
            bool upper = node[a] < node[b]; // the stored block is (b, a)
            for (int c = 0; c < 3; c++) {
                double *at = column[upper ? a : b][c] + place[e];
                for (int r = 0; r < 3; r++) at[r] += upper ? h[3 * c + r][l] : h[3 * r + c][l];
            }
        }
    }
}

// ---- all elements ----

TARGET static double NAME(all_energy)(const qpc_tets *tets, const double *x) {
    double sum = 0;
    NAME(batch) t;
    VEC part;
    for (int32_t e = 0; e < tets->count; e += t.count) {
        NAME(gather)(tets, x, e, &t);
        NAME(energy)(&t, &part);
        for (int l = 0; l < t.count; l++) sum += part[l];
    }
    return sum;
}

TARGET static void NAME(all_force)(const qpc_tets *tets, const double *x, double *f) {
    NAME(batch) t;
    VEC P[9], part[9];
    for (int32_t e = 0; e < tets->count; e += t.count) {
        NAME(gather)(tets, x, e, &t);
        NAME(stress)(&t, P);
        for (int k = 0; k < 9; k += 3)
            for (int r = 0; r < 3; r++)
                part[k + r] = -(P[3 * r] * t.g[k] + P[3 * r + 1] * t.g[k + 1] + P[3 * r + 2] * t.g[k + 2]);
        NAME(scatter)(tets, &t, part, f);
    }
}

TARGET static void NAME(all_linearise)(const qpc_tets *tets, const double *x, const double *v, double dt, qpc_linsys *K,
                                       double *f, double *Hv) {
    double dt2 = dt * dt;
    NAME(batch) t;
    VEC part[9], H[10][9];
    for (int32_t e = 0; e < tets->count; e += t.count) {
        NAME(gather)(tets, x, e, &t);
        NAME(linearise)(&t, part, H);
        if (f != NULL) NAME(scatter)(tets, &t, part, f);
        if (Hv != NULL) {
            NAME(multiply)(tets, &t, H, v, part);
            NAME(scatter)(tets, &t, part, Hv);
        }
        if (K == NULL) continue;
        for (int b = 0; b < 10; b++)
            for (int k = 0; k < 9; k++) H[b][k] *= dt2;
        NAME(add_to_columns)(tets, &t, H, K);
    }
}

TARGET static void NAME(all_stress)(const qpc_tets *tets, const double *x, double *ret) {
    static const int ROW[6] = {0, 1, 2, 0, 1, 2}, COLUMN[6] = {0, 1, 2, 1, 2, 0};
    NAME(batch) t;
    VEC P[9];
    for (int32_t e = 0; e < tets->count; e += t.count) {
        NAME(gather)(tets, x, e, &t);
        NAME(stress)(&t, P);
        const VEC *F = t.F;
        VEC J = F[0] * (F[4] * F[8] - F[5] * F[7]) - F[1] * (F[3] * F[8] - F[5] * F[6]) +
                 F[2] * (F[3] * F[7] - F[4] * F[6]);
        for (int k = 0; k < 6; k++) {
            const VEC *p = P + 3 * ROW[k], *q = F + 3 * COLUMN[k];
            VEC value = (p[0] * q[0] + p[1] * q[1] + p[2] * q[2]) / (J * t.volume);
            for (int l = 0; l < t.count; l++) ret[6 * (int64_t)(e + l) + k] = value[l];
        }
    }
}

#undef PICK
#undef INLINE
#undef TARGET
#undef NAME
#undef VEC
#undef MASK
#undef LANES
