/// Kernels of ssor.c, included once for each instruction set: TARGET, NAME.

/// Rows of the blocks left of the diagonal in row i against y, each lane for itself.
TARGET static inline void NAME(gather)(const int32_t *start, const int32_t *column, const float *value, int32_t i, const float *y,
                                       quad sum[3]) {
    for (int32_t k = start[i]; k < start[i + 1]; k++) {
        const float *m = value + 12 * (int64_t)k;
        quad v = load(y + 4 * (int64_t)column[k]);
        sum[0] += load(m) * v;
        sum[1] += load(m + 4) * v;
        sum[2] += load(m + 8) * v;
    }
}

/// L y in row i of K + E
TARGET static inline quad NAME(left)(const qpc_ssor *s, int32_t i, const float *y) {
    quad sum[3] = {{0}, {0}, {0}};
    NAME(gather)(s->K->sweep_start, s->K->sweep_column, s->K->sweep, i, y, sum);
    NAME(gather)(s->start, s->column, s->extra, i, y, sum);
    return across(sum[0], sum[1], sum[2]);
}

/// q -= (transposed blocks left of the diagonal in row i) times v
TARGET static inline void NAME(scatter)(const int32_t *start, const int32_t *column, const float *value, int32_t i, quad v, float *q) {
    quad v0 = splat(v, 0), v1 = splat(v, 1), v2 = splat(v, 2);
    for (int32_t k = start[i]; k < start[i + 1]; k++) {
        float *to = q + 4 * (int64_t)column[k];
        const float *m = value + 12 * (int64_t)k;
        store(to, load(to) - (load(m) * v0 + load(m + 4) * v1 + load(m + 8) * v2));
    }
}

/// q = D W^-T q, t = W^-T q
TARGET static void NAME(sweep_down)(qpc_ssor *s) {
    const qpc_blocks *K = s->K;
    for (int32_t i = K->count - 1; i >= 0; i--) {
        quad t = times(s->inverse + 12 * (int64_t)i, load(s->q + 4 * (int64_t)i));
        store(s->t + 4 * (int64_t)i, t);
        NAME(scatter)(K->sweep_start, K->sweep_column, K->sweep, i, t, s->q);
        NAME(scatter)(s->start, s->column, s->extra, i, t, s->q);
    }
}

/// q = W^-1 (p - q), and p'(t + q), which the sum is the product M^-1 (K + E) of.
TARGET static double NAME(sweep_up)(qpc_ssor *s) {
    const qpc_blocks *K = s->K;
    sums curve = {0};
    for (int32_t i = 0; i < K->count; i++) {
        int64_t at = 4 * (int64_t)i;
        quad p = load(s->p + at), sum = NAME(left)(s, i, s->q);
        quad q = times(s->inverse + 3 * at, p - load(s->q + at) - sum);
        store(s->q + at, q);
        add(&curve, p * (load(s->t + at) + q));
    }
    return total(&curve);
}

/// t = K d, without rows
TARGET static void NAME(product)(qpc_ssor *s) {
    const qpc_blocks *K = s->K;
    for (int32_t i = 0; i < K->count; i++) {
        quad d = load(s->d + 4 * (int64_t)i), d0 = splat(d, 0), d1 = splat(d, 1), d2 = splat(d, 2), sum[3] = {{0}, {0}, {0}};
        for (int32_t k = K->sweep_start[i]; k < K->sweep_start[i + 1]; k++) {
            const float *m = K->sweep + 12 * (int64_t)k;
            int64_t at = 4 * (int64_t)K->sweep_column[k];
            quad m0 = load(m), m1 = load(m + 4), m2 = load(m + 8), other = load(s->d + at);
            sum[0] += m0 * other;
            sum[1] += m1 * other;
            sum[2] += m2 * other;
            store(s->t + at, load(s->t + at) + (m0 * d0 + m1 * d1 + m2 * d2));
        }
        store(s->t + 4 * (int64_t)i, times(K->sweep_diagonal + 12 * (int64_t)i, d) + across(sum[0], sum[1], sum[2]));
    }
}

/// r = W^-1 (unit rhs), and r'D r.
TARGET static double NAME(start)(qpc_ssor *s, const double *rhs, double unit) {
    const qpc_blocks *K = s->K;
    sums norm2 = {0};
    for (int32_t i = 0; i < K->count; i++) {
        int64_t at = 4 * (int64_t)i;
        double f = unit * K->scale[K->node[i]];
        const double *v = rhs + 3 * (int64_t)K->node[i];
        quad sum = {(float)(f * v[0]), (float)(f * v[1]), (float)(f * v[2]), 0};
        sum -= NAME(left)(s, i, s->r);
        quad r = times(s->inverse + 3 * at, sum);
        store(s->r + at, r);
        add(&norm2, r * times(s->D + 3 * at, r));
    }
    return total(&norm2);
}

/// p = q = D r; r'q. d = 0, unless it has begun in the coarse space.
TARGET static double NAME(begin)(qpc_ssor *s) {
    sums rz = {0};
    for (int64_t i = 0; i < s->K->count; i++) {
        quad r = load(s->r + 4 * i), z = times(s->D + 12 * i, r);
        if (s->coarse == NULL) store(s->d + 4 * i, (quad){0});
        store(s->p + 4 * i, z);
        store(s->q + 4 * i, z);
        add(&rz, r * z);
    }
    return fmax(total(&rz), 0);
}

/// t the direction: d += alpha t, r -= alpha (t + q), q = D r; r'q. With a coarse space p = q: t follows, not p.
TARGET static double NAME(advance)(qpc_ssor *s, float alpha) {
    sums rz = {0};
    quad a = {alpha, alpha, alpha, alpha};
    for (int64_t i = 0; i < s->K->count; i++) {
        quad t = load(s->way + 4 * i), r = load(s->r + 4 * i) - a * (t + load(s->q + 4 * i));
        quad z = times(s->D + 12 * i, r);
        store(s->d + 4 * i, load(s->d + 4 * i) + a * t);
        store(s->r + 4 * i, r);
        store(s->q + 4 * i, z);
        if (s->coarse != NULL) store(s->p + 4 * i, z);
        add(&rz, r * z);
    }
    return fmax(total(&rz), 0);
}

/// p = q + beta p, q = p
TARGET static void NAME(next_direction)(qpc_ssor *s, float beta) {
    quad b = {beta, beta, beta, beta};
    for (int64_t i = 0; i < s->K->count; i++) {
        quad p = load(s->q + 4 * i) + b * load(s->p + 4 * i);
        store(s->p + 4 * i, p);
        store(s->q + 4 * i, p);
    }
}

/// (L'Z) mu in row i, of K
TARGET static inline quad NAME(coarse_left)(const qpc_coarse *z, int32_t i, const float *mu) {
    quad sum = {0};
    for (int32_t k = z->left_start[i]; k < z->left_start[i + 1]; k++)
        sum += times(z->left + 12 * (int64_t)k, load(mu + 4 * (int64_t)z->left_other[k]));
    return sum;
}

/// p -= (L'Z) mu of the rows' part
TARGET static void NAME(spread)(qpc_ssor *s) {
    const qpc_coarse *z = s->coarse;
    for (int32_t k = 0; k < s->touched_count; k++) {
        int32_t i = s->touched[k];
        if (s->start[i] == s->start[i + 1]) continue;
        float w = z->weight[i];
        NAME(scatter)(s->start, s->column, s->extra, i, (quad){w, w, w, 0} * load(s->mu + 4 * (int64_t)z->at[i]), s->p);
    }
}

/// c += v
TARGET static inline void NAME(add_to)(double *c, quad v) {
    pair *low = (pair *)c, *high = (pair *)(c + 2);
    *low += (pair){(double)v[0], (double)v[1]};
    *high += (pair){(double)v[2], (double)v[3]};
}

/// c += (L'Z)'v of a row, of K
TARGET static inline void NAME(add_left)(qpc_ssor *s, int32_t i, quad v) {
    const qpc_coarse *z = s->coarse;
    for (int32_t k = z->left_start[i]; k < z->left_start[i + 1]; k++) {
        const float *m = z->left + 12 * (int64_t)k;
        NAME(add_to)(s->c + 4 * (int64_t)z->left_other[k], across(load(m) * v, load(m + 4) * v, load(m + 8) * v));
    }
}

/// The same of E for all rows, v = y - less (NULL: y).
TARGET static void NAME(add_left_of_rows)(qpc_ssor *s, const float *y, const float *less) {
    const qpc_coarse *z = s->coarse;
    for (int32_t k = 0; k < s->touched_count; k++) {
        int32_t i = s->touched[k];
        if (s->start[i] == s->start[i + 1]) continue;
        float w = z->weight[i];
        quad sum[3] = {{0}, {0}, {0}}, off[3] = {{0}, {0}, {0}};
        NAME(gather)(s->start, s->column, s->extra, i, y, sum);
        if (less != NULL) NAME(gather)(s->start, s->column, s->extra, i, less, off);
        NAME(add_to)(s->c + 4 * (int64_t)z->at[i], (quad){w, w, w, 0} * across(sum[0] - off[0], sum[1] - off[1], sum[2] - off[2]));
    }
}

/// c = Z'(K + E) t - Z'W r = (L'Z)'(t - r), as W't = D r
TARGET static void NAME(collect)(qpc_ssor *s) {
    memset(s->c, 0, 4 * ((size_t)s->coarse->count + 1) * sizeof *s->c);
    for (int32_t i = 0; i < s->K->count; i++) {
        quad t = load(s->t + 4 * (int64_t)i) - load(s->r + 4 * (int64_t)i);
        NAME(add_left)(s, i, t);
    }
    NAME(add_left_of_rows)(s, s->t, s->r);
}

/// t - Z mu + beta t_before is the new direction, and so with l = L't; q = W^-1 l, and (W't)'(t + q).
TARGET static double NAME(sweep_up_coarse)(qpc_ssor *s, float beta) {
    const qpc_blocks *K = s->K;
    const qpc_coarse *z = s->coarse;
    sums curve = {0};
    quad b = {beta, beta, beta, beta};
    NAME(spread)(s);
    for (int32_t i = 0; i < K->count; i++) {
        int64_t at = 4 * (int64_t)i;
        float w = z->weight[i];
        quad l = load(s->p + at) - load(s->q + at) - NAME(coarse_left)(z, i, s->mu) + b * load(s->l + at);
        quad t = load(s->t + at) - (quad){w, w, w, 0} * load(s->mu + 4 * (int64_t)z->at[i]) + b * load(s->way + at);
        quad q = times(s->inverse + 3 * at, l - NAME(left)(s, i, s->q));
        store(s->l + at, l);
        store(s->way + at, t);
        store(s->q + at, q);
        add(&curve, (l + times(s->D + 3 * at, t)) * (t + q));
    }
    return total(&curve);
}

/// c = Z'W r: what the coarse space sees of a right-hand side.
TARGET static void NAME(restrict_to)(qpc_ssor *s) {
    const qpc_coarse *z = s->coarse;
    memset(s->c, 0, 4 * ((size_t)z->count + 1) * sizeof *s->c);
    for (int32_t i = 0; i < s->K->count; i++) {
        int64_t at = 4 * (int64_t)i;
        float w = z->weight[i];
        quad r = load(s->r + at);
        NAME(add_to)(s->c + 4 * (int64_t)z->at[i], (quad){w, w, w, 0} * times(s->D + 3 * at, r));
        NAME(add_left)(s, i, r);
    }
    NAME(add_left_of_rows)(s, s->r, NULL);
}

/// d = Z mu, r -= W^-1 (K + E) Z mu; no direction yet.
TARGET static void NAME(take_coarse)(qpc_ssor *s) {
    const qpc_coarse *z = s->coarse;
    memset(s->p, 0, 4 * (size_t)s->K->count * sizeof *s->p);
    NAME(spread)(s);
    for (int32_t i = 0; i < s->K->count; i++) {
        int64_t at = 4 * (int64_t)i;
        float w = z->weight[i];
        quad sum = load(s->p + at) - NAME(coarse_left)(z, i, s->mu) - NAME(left)(s, i, s->q);
        quad q = times(s->inverse + 3 * at, sum), d = (quad){w, w, w, 0} * load(s->mu + 4 * (int64_t)z->at[i]);
        store(s->q + at, q);
        store(s->d + at, d);
        store(s->r + at, load(s->r + at) + q - d);
        store(s->way + at, (quad){0});
        store(s->l + at, (quad){0});
    }
}

#undef TARGET
#undef NAME
