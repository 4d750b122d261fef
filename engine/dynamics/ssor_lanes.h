/// Kernels of ssor.c, included once for each instruction set: TARGET, NAME. Vectors are by positions; eight nodes of a
/// group are four pairs in a row there, and three vectors of lanes (x, y, z) once they are taken apart.

/// Lanes of a group from four pairs of nodes.
TARGET static inline void NAME(take_apart)(const oct *n, oct *out) {
    oct low = __builtin_shufflevector(n[0], n[1], 0, 8, 1, 9, 4, 12, 5, 13), low2 = __builtin_shufflevector(n[2], n[3], 0, 8, 1, 9, 4, 12, 5, 13);
    oct high = __builtin_shufflevector(n[0], n[1], 2, 10, 3, 11, 6, 14, 7, 15), high2 = __builtin_shufflevector(n[2], n[3], 2, 10, 3, 11, 6, 14, 7, 15);
    out[0] = __builtin_shufflevector(low, low2, 0, 1, 8, 9, 4, 5, 12, 13);
    out[1] = __builtin_shufflevector(low, low2, 2, 3, 10, 11, 6, 7, 14, 15);
    out[2] = __builtin_shufflevector(high, high2, 0, 1, 8, 9, 4, 5, 12, 13);
}

/// And back, with zeros behind each node.
TARGET static inline void NAME(put_together)(const oct *v, oct *out) {
    oct zero = {0};
    oct low = __builtin_shufflevector(v[0], v[1], 0, 8, 1, 9, 4, 12, 5, 13), low2 = __builtin_shufflevector(v[2], zero, 0, 8, 1, 9, 4, 12, 5, 13);
    oct high = __builtin_shufflevector(v[0], v[1], 2, 10, 3, 11, 6, 14, 7, 15), high2 = __builtin_shufflevector(v[2], zero, 2, 10, 3, 11, 6, 14, 7, 15);
    out[0] = __builtin_shufflevector(low, low2, 0, 1, 8, 9, 4, 5, 12, 13);
    out[1] = __builtin_shufflevector(low, low2, 2, 3, 10, 11, 6, 7, 14, 15);
    out[2] = __builtin_shufflevector(high, high2, 0, 1, 8, 9, 4, 5, 12, 13);
    out[3] = __builtin_shufflevector(high, high2, 2, 3, 10, 11, 6, 7, 14, 15);
}

TARGET static inline void NAME(load_group)(const float *y, oct *out) {
    oct n[4] = {LOAD8(y), LOAD8(y + 8), LOAD8(y + 16), LOAD8(y + 24)};
    NAME(take_apart)(n, out);
}

TARGET static inline void NAME(store_group)(float *y, const oct *v) {
    oct n[4];
    NAME(put_together)(v, n);
    for (int k = 0; k < 4; k++) AT8(y + 8 * k) = n[k];
}

/// Symmetric blocks of a group times v.
TARGET static inline void NAME(times_group)(const float *m, const oct *v, oct *out) {
    oct xx = LOAD8(m), xy = LOAD8(m + 8), xz = LOAD8(m + 16), yy = LOAD8(m + 24), yz = LOAD8(m + 32), zz = LOAD8(m + 40);
    oct x = xx * v[0] + xy * v[1] + xz * v[2], y = xy * v[0] + yy * v[1] + yz * v[2];
    out[2] = xz * v[0] + yz * v[1] + zz * v[2];
    out[0] = x;
    out[1] = y;
}

/// The sum of a'b over the nodes of a group.
TARGET static inline void NAME(add_dots)(sums *s, const oct *a, const oct *b) {
    oct v = a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
    add(s, __builtin_shufflevector(v, v, 0, 1, 2, 3));
    add(s, __builtin_shufflevector(v, v, 4, 5, 6, 7));
}

/// Rows of the blocks [from, to) against y, each lane for itself.
TARGET static inline quad NAME(gather)(const int32_t *column, const float *value, int32_t from, int32_t to, const float *y) {
    quad sum[3] = {{0}, {0}, {0}};
    for (int32_t k = from; k < to; k++) {
        const float *m = value + 12 * (int64_t)k;
        quad v = load(y + 4 * (int64_t)column[k]);
        sum[0] += load(m) * v;
        sum[1] += load(m + 4) * v;
        sum[2] += load(m + 8) * v;
    }
    return across(sum[0], sum[1], sum[2]);
}

/// (transposed block) times v
TARGET static inline quad NAME(turned)(const float *m, quad v) {
    return load(m) * splat(v, 0) + load(m + 4) * splat(v, 1) + load(m + 8) * splat(v, 2);
}

/// y -= (blocks that couple nodes within a group) y in row i, in the units of y = W^-1 .
TARGET static inline void NAME(correct_up)(const qpc_ssor *s, int32_t i, const int32_t *start, const int32_t *column, const float *value,
                                           float *y) {
    int32_t first = i / QPC_SWEEP_LANES * QPC_SWEEP_LANES;
    for (int32_t k = start[i]; k < start[i + 1]; k++) {
        if (column[k] < first) continue;
        quad sum = NAME(gather)(column, value, k, k + 1, y);
        store(y + 4 * (int64_t)i, load(y + 4 * (int64_t)i) - times(s->inverse, i, sum));
    }
}

/// sum (3) += the blocks in slots [from, to), one a lane, times y.
TARGET static inline void NAME(add_slots)(const qpc_sweep *w, int32_t from, int32_t to, const float *y, oct *sum) {
    for (int32_t k = from; k < to; k++) {
        const float *m = w->value + QPC_SWEEP_BLOCK * (int64_t)k;
        const int32_t *c = w->slot_column + QPC_SWEEP_LANES * (int64_t)k;
        oct v[3], n[4] = {BESIDE(y + c[0], y + c[1]), BESIDE(y + c[2], y + c[3]), BESIDE(y + c[4], y + c[5]), BESIDE(y + c[6], y + c[7])};
        NAME(take_apart)(n, v);
        for (int r = 0; r < 3; r++) sum[r] += LOAD8(m + 24 * r) * v[0] + LOAD8(m + 24 * r + 8) * v[1] + LOAD8(m + 24 * r + 16) * v[2];
    }
}

/// q -= the blocks in slots [from, to) transposed times v: the last first, which the next group waits for.
TARGET static inline void NAME(take_slots)(const qpc_sweep *w, int32_t from, int32_t to, const oct *v, float *q) {
    for (int32_t k = to - 1; k >= from; k--) {
        const float *m = w->value + QPC_SWEEP_BLOCK * (int64_t)k;
        const int32_t *c = w->slot_column + QPC_SWEEP_LANES * (int64_t)k;
        oct part[3], n[4];
        for (int r = 0; r < 3; r++) part[r] = LOAD8(m + 8 * r) * v[0] + LOAD8(m + 24 + 8 * r) * v[1] + LOAD8(m + 48 + 8 * r) * v[2];
        NAME(put_together)(part, n);
        for (int l = 0; l < 4; l++) {
            float *a = q + c[2 * l], *b = q + c[2 * l + 1];
            store(a, load(a) - __builtin_shufflevector(n[l], n[l], 0, 1, 2, 3));
            store(b, load(b) - __builtin_shufflevector(n[l], n[l], 4, 5, 6, 7));
        }
    }
}

/// Group g of y = W^-1 y, those before being done; slots before `from` meet zeros only.
TARGET static inline void NAME(solve_group_from)(const qpc_ssor *s, int32_t g, int32_t from, float *y) {
    const qpc_sweep *w = &s->K->sweep;
    int32_t first = QPC_SWEEP_LANES * g, end = first + QPC_SWEEP_LANES < w->count ? first + QPC_SWEEP_LANES : w->count;
    float *own = y + 4 * (int64_t)first;
    bool rows = s->start[end] > s->start[first], inner = w->inner_start[end] > w->inner_start[first];
    for (int32_t i = first; i < end && rows; i++)
        for (int32_t k = s->start[i]; k < s->start[i + 1]; k++)
            if (s->column[k] < first)
                store(y + 4 * (int64_t)i, load(y + 4 * (int64_t)i) - NAME(gather)(s->column, s->extra, k, k + 1, y));
    oct sum[3] = {{0}, {0}, {0}}, v[3];
    NAME(add_slots)(w, from, w->slot_start[g + 1], y, sum);
    NAME(load_group)(own, v);
    for (int r = 0; r < 3; r++) v[r] -= sum[r];
    NAME(times_group)(s->inverse + QPC_SWEEP_DIAGONAL * (int64_t)g, v, v);
    NAME(store_group)(own, v);
    if (!rows && !inner) return;
    for (int32_t i = first; i < end; i++) {
        NAME(correct_up)(s, i, w->inner_start, w->inner_column, w->inner, y);
        NAME(correct_up)(s, i, s->start, s->column, s->extra, y);
    }
}

TARGET static inline void NAME(solve_group)(const qpc_ssor *s, int32_t g, float *y) {
    NAME(solve_group_from)(s, g, s->K->sweep.slot_start[g], y);
}

/// q -= (transposed blocks left of the diagonal in row i) times t; within a group t follows.
TARGET static inline void NAME(scatter)(const qpc_ssor *s, const int32_t *start, const int32_t *column, const float *value, int32_t i,
                                        float *t, float *q, bool within) {
    int32_t first = i / QPC_SWEEP_LANES * QPC_SWEEP_LANES;
    quad v = load(t + 4 * (int64_t)i);
    for (int32_t k = start[i]; k < start[i + 1]; k++) {
        if ((column[k] >= first) != within) continue;
        int64_t to = 4 * (int64_t)column[k];
        quad part = NAME(turned)(value + 12 * (int64_t)k, v);
        store(q + to, load(q + to) - part);
        if (within) store(t + to, load(t + to) - times(s->inverse, column[k], part));
    }
}

/// Group g of t = W^-T q, those behind being done: q = D t there, and less their part before.
TARGET static inline void NAME(solve_group_down)(const qpc_ssor *s, int32_t g, float *t, float *q) {
    const qpc_sweep *w = &s->K->sweep;
    int32_t first = QPC_SWEEP_LANES * g, end = first + QPC_SWEEP_LANES < w->count ? first + QPC_SWEEP_LANES : w->count;
    oct v[3];
    NAME(load_group)(q + 4 * (int64_t)first, v);
    NAME(times_group)(s->inverse + QPC_SWEEP_DIAGONAL * (int64_t)g, v, v);
    NAME(store_group)(t + 4 * (int64_t)first, v);
    if (s->start[end] > s->start[first] || w->inner_start[end] > w->inner_start[first]) {
        for (int32_t i = end - 1; i >= first; i--) {
            NAME(scatter)(s, w->inner_start, w->inner_column, w->inner, i, t, q, true);
            NAME(scatter)(s, s->start, s->column, s->extra, i, t, q, true);
        }
        for (int32_t i = end - 1; i >= first; i--) NAME(scatter)(s, s->start, s->column, s->extra, i, t, q, false);
        NAME(load_group)(t + 4 * (int64_t)first, v);
    }
    NAME(take_slots)(w, w->slot_start[g], w->slot_start[g + 1], v, q);
}

/// q = D W^-T q, t = W^-T q
TARGET static void NAME(sweep_down)(qpc_ssor *s) {
    for (int32_t g = s->K->sweep.groups - 1; g >= 0; g--) NAME(solve_group_down)(s, g, s->t, s->q);
}

/// q = W^-1 (p - q), and p'(t + q), which the sum is the product M^-1 (K + E) of.
TARGET static double NAME(sweep_up)(qpc_ssor *s) {
    sums curve = {0};
    for (int32_t g = 0; g < s->K->sweep.groups; g++) {
        int64_t at = 4 * QPC_SWEEP_LANES * (int64_t)g;
        float *p = s->p + at, *q = s->q + at, *t = s->t + at;
        oct sum = {0};
        for (int k = 0; k < 32; k += 8) AT8(q + k) = LOAD8(p + k) - LOAD8(q + k);
        NAME(solve_group)(s, g, s->q);
        for (int k = 0; k < 32; k += 8) sum += LOAD8(p + k) * (LOAD8(t + k) + LOAD8(q + k));
        add(&curve, __builtin_shufflevector(sum, sum, 0, 1, 2, 3));
        add(&curve, __builtin_shufflevector(sum, sum, 4, 5, 6, 7));
    }
    return total(&curve);
}

/// t += K d between nodes of a group, in row i.
TARGET static inline void NAME(product_within)(const qpc_ssor *s, int32_t i) {
    const qpc_sweep *w = &s->K->sweep;
    for (int32_t k = w->inner_start[i]; k < w->inner_start[i + 1]; k++) {
        float *own = s->t + 4 * (int64_t)i, *other = s->t + 4 * (int64_t)w->inner_column[k];
        store(own, load(own) + NAME(gather)(w->inner_column, w->inner, k, k + 1, s->d));
        store(other, load(other) + NAME(turned)(w->inner + 12 * (int64_t)k, load(s->d + 4 * (int64_t)i)));
    }
}

/// t = K d, without rows
TARGET static void NAME(product)(qpc_ssor *s) {
    const qpc_sweep *w = &s->K->sweep;
    for (int32_t g = 0; g < w->groups; g++) {
        int32_t first = QPC_SWEEP_LANES * g, end = first + QPC_SWEEP_LANES < w->count ? first + QPC_SWEEP_LANES : w->count;
        oct own[3], v[3], part[3], n[4], sum[3];
        NAME(load_group)(s->d + 4 * (int64_t)first, own);
        NAME(times_group)(w->diagonal + QPC_SWEEP_DIAGONAL * (int64_t)g, own, sum);
        for (int32_t k = w->slot_start[g]; k < w->slot_start[g + 1]; k++) {
            const float *m = w->value + QPC_SWEEP_BLOCK * (int64_t)k;
            const int32_t *c = w->slot_column + QPC_SWEEP_LANES * (int64_t)k;
            for (int l = 0; l < 4; l++) n[l] = BESIDE(s->d + c[2 * l], s->d + c[2 * l + 1]);
            NAME(take_apart)(n, v);
            for (int r = 0; r < 3; r++) {
                sum[r] += LOAD8(m + 24 * r) * v[0] + LOAD8(m + 24 * r + 8) * v[1] + LOAD8(m + 24 * r + 16) * v[2];
                part[r] = LOAD8(m + 8 * r) * own[0] + LOAD8(m + 8 * r + 24) * own[1] + LOAD8(m + 8 * r + 48) * own[2];
            }
            NAME(put_together)(part, n);
            for (int l = 0; l < 4; l++) {
                float *a = s->t + c[2 * l], *b = s->t + c[2 * l + 1];
                store(a, load(a) + __builtin_shufflevector(n[l], n[l], 0, 1, 2, 3));
                store(b, load(b) + __builtin_shufflevector(n[l], n[l], 4, 5, 6, 7));
            }
        }
        NAME(store_group)(s->t + 4 * (int64_t)first, sum);
        for (int32_t i = first; i < end; i++) NAME(product_within)(s, i);
    }
}

/// r = W^-1 (unit rhs), and r'D r.
TARGET static double NAME(start)(qpc_ssor *s, const double *rhs, double unit) {
    const qpc_blocks *K = s->K;
    sums norm2 = {0};
    for (int32_t g = 0; g < K->sweep.groups; g++) {
        int64_t at = 4 * QPC_SWEEP_LANES * (int64_t)g;
        int32_t first = QPC_SWEEP_LANES * g, nodes = K->count - first < QPC_SWEEP_LANES ? K->count - first : QPC_SWEEP_LANES;
        for (int32_t l = 0; l < nodes; l++) {
            int32_t node = K->sweep.node[first + l];
            double f = unit * K->scale[node];
            const double *v = rhs + 3 * (int64_t)node;
            store(s->r + at + 4 * l, (quad){(float)(f * v[0]), (float)(f * v[1]), (float)(f * v[2]), 0});
        }
        NAME(solve_group)(s, g, s->r);
        oct r[3], Dr[3];
        NAME(load_group)(s->r + at, r);
        NAME(times_group)(s->D + QPC_SWEEP_DIAGONAL * (int64_t)g, r, Dr);
        NAME(add_dots)(&norm2, r, Dr);
    }
    return total(&norm2);
}

/// p = q = D r; r'q. d = 0, unless it has begun in the coarse space.
TARGET static double NAME(begin)(qpc_ssor *s) {
    sums rz = {0};
    for (int32_t g = 0; g < s->K->sweep.groups; g++) {
        int64_t at = 4 * QPC_SWEEP_LANES * (int64_t)g;
        oct r[3], z[3];
        NAME(load_group)(s->r + at, r);
        NAME(times_group)(s->D + QPC_SWEEP_DIAGONAL * (int64_t)g, r, z);
        NAME(add_dots)(&rz, r, z);
        NAME(store_group)(s->p + at, z);
        for (int k = 0; k < 32; k += 8) {
            AT8(s->q + at + k) = LOAD8(s->p + at + k);
            if (s->coarse == NULL) AT8(s->d + at + k) = (oct){0};
        }
    }
    return fmax(total(&rz), 0);
}

/// t the direction: d += alpha t, r -= alpha (t + q), q = D r; r'q. With a coarse space p = q: t follows, not p.
TARGET static double NAME(advance)(qpc_ssor *s, float alpha) {
    sums rz = {0};
    oct a = {alpha, alpha, alpha, alpha, alpha, alpha, alpha, alpha};
    for (int32_t g = 0; g < s->K->sweep.groups; g++) {
        int64_t at = 4 * QPC_SWEEP_LANES * (int64_t)g;
        oct n[4], r[3], z[3];
        for (int k = 0; k < 4; k++) {
            int64_t i = at + 8 * k;
            oct t = LOAD8(s->way + i);
            n[k] = LOAD8(s->r + i) - a * (t + LOAD8(s->q + i));
            AT8(s->d + i) = LOAD8(s->d + i) + a * t;
            AT8(s->r + i) = n[k];
        }
        NAME(take_apart)(n, r);
        NAME(times_group)(s->D + QPC_SWEEP_DIAGONAL * (int64_t)g, r, z);
        NAME(add_dots)(&rz, r, z);
        NAME(put_together)(z, n);
        for (int k = 0; k < 4; k++) {
            AT8(s->q + at + 8 * k) = n[k];
            if (s->coarse != NULL) AT8(s->p + at + 8 * k) = n[k];
        }
    }
    return fmax(total(&rz), 0);
}

/// q = W^-1 q from position `first` on, where q is zero before it, r there and r'D r.
TARGET static double NAME(start_late)(qpc_ssor *s) {
    sums norm2 = {0};
    for (int32_t g = s->first / QPC_SWEEP_LANES; g < s->K->sweep.groups; g++) {
        int64_t at = 4 * QPC_SWEEP_LANES * (int64_t)g;
        oct r[3], Dr[3];
        NAME(solve_group_from)(s, g, s->slot_from[g], s->q);
        NAME(load_group)(s->q + at, r);
        NAME(times_group)(s->D + QPC_SWEEP_DIAGONAL * (int64_t)g, r, Dr);
        NAME(add_dots)(&norm2, r, Dr);
        NAME(store_group)(s->r + at, r);
    }
    return total(&norm2);
}

/// t = W y from group g0 on, where y is zero before it (from: slots that meet more than zeros; NULL: all).
TARGET static void NAME(left_product)(qpc_ssor *s, int32_t g0, const int32_t *from, const float *y) {
    const qpc_sweep *w = &s->K->sweep;
    for (int32_t g = g0; g < w->groups; g++) {
        int32_t first = QPC_SWEEP_LANES * g, end = first + QPC_SWEEP_LANES < w->count ? first + QPC_SWEEP_LANES : w->count;
        oct v[3], sum[3];
        NAME(load_group)(y + 4 * (int64_t)first, v);
        NAME(times_group)(s->D + QPC_SWEEP_DIAGONAL * (int64_t)g, v, sum);
        NAME(add_slots)(w, from != NULL ? from[g] : w->slot_start[g], w->slot_start[g + 1], y, sum);
        NAME(store_group)(s->t + 4 * (int64_t)first, sum);
        for (int32_t i = first; i < end; i++) {
            float *own = s->t + 4 * (int64_t)i;
            store(own, load(own) + NAME(gather)(w->inner_column, w->inner, w->inner_start[i], w->inner_start[i + 1], y) +
                           NAME(gather)(s->column, s->extra, s->start[i], s->start[i + 1], y));
        }
    }
}

/// Before position `first` r = before + step (r - before), and r'D r there; everywhere sum += step d.
TARGET static double NAME(follow)(qpc_ssor *s, float step) {
    sums norm2 = {0};
    oct a = {step, step, step, step, step, step, step, step};
    for (int32_t g = 0; g < s->K->sweep.groups; g++) {
        int64_t at = 4 * QPC_SWEEP_LANES * (int64_t)g;
        oct r[3], Dr[3];
        for (int64_t k = at; k < at + 32; k += 8) AT8(s->sum + k) = LOAD8(s->sum + k) + a * LOAD8(s->d + k);
        if (QPC_SWEEP_LANES * g >= s->first) continue;
        for (int64_t k = at; k < at + 32; k += 8) AT8(s->r + k) = LOAD8(s->before + k) + a * (LOAD8(s->r + k) - LOAD8(s->before + k));
        NAME(load_group)(s->r + at, r);
        NAME(times_group)(s->D + QPC_SWEEP_DIAGONAL * (int64_t)g, r, Dr);
        NAME(add_dots)(&norm2, r, Dr);
    }
    return total(&norm2);
}

/// p = q + beta p, q = p
TARGET static void NAME(next_direction)(qpc_ssor *s, float beta) {
    oct b = {beta, beta, beta, beta, beta, beta, beta, beta};
    int64_t size = 4 * QPC_SWEEP_LANES * (int64_t)s->K->sweep.groups;
    for (int64_t i = 0; i < size; i += 8) {
        oct p = LOAD8(s->q + i) + b * LOAD8(s->p + i);
        AT8(s->p + i) = p;
        AT8(s->q + i) = p;
    }
}

/// (L'Z) mu in row i, of K
TARGET static inline quad NAME(coarse_left)(const qpc_coarse *z, int32_t i, const float *mu) {
    quad sum = {0};
    for (int32_t k = z->left_start[i]; k < z->left_start[i + 1]; k++)
        sum += NAME(turned)(z->left + 12 * (int64_t)k, load(mu + 4 * (int64_t)z->left_other[k]));
    return sum;
}

/// p -= (L'Z) mu of the rows' part
TARGET static void NAME(spread)(qpc_ssor *s) {
    const qpc_coarse *z = s->coarse;
    for (int32_t k = 0; k < s->touched_count; k++) {
        int32_t i = s->touched[k];
        float w = z->weight[i];
        quad v = (quad){w, w, w, 0} * load(s->mu + 4 * (int64_t)z->at[i]);
        for (int32_t e = s->start[i]; e < s->start[i + 1]; e++) {
            float *to = s->p + 4 * (int64_t)s->column[e];
            store(to, load(to) - NAME(turned)(s->extra + 12 * (int64_t)e, v));
        }
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
        int32_t i = s->touched[k], from = s->start[i], to = s->start[i + 1];
        if (from == to) continue;
        float w = z->weight[i];
        quad sum = NAME(gather)(s->column, s->extra, from, to, y);
        if (less != NULL) sum -= NAME(gather)(s->column, s->extra, from, to, less);
        NAME(add_to)(s->c + 4 * (int64_t)z->at[i], (quad){w, w, w, 0} * sum);
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
    const qpc_coarse *z = s->coarse;
    sums curve = {0};
    quad b = {beta, beta, beta, beta};
    NAME(spread)(s);
    for (int32_t first = 0; first < s->K->count; first += QPC_SWEEP_LANES) {
        int32_t end = first + QPC_SWEEP_LANES < s->K->count ? first + QPC_SWEEP_LANES : s->K->count;
        for (int32_t i = first; i < end; i++) {
            int64_t at = 4 * (int64_t)i;
            float w = z->weight[i];
            quad l = load(s->p + at) - load(s->q + at) - NAME(coarse_left)(z, i, s->mu) + b * load(s->l + at);
            store(s->way + at, load(s->t + at) - (quad){w, w, w, 0} * load(s->mu + 4 * (int64_t)z->at[i]) + b * load(s->way + at));
            store(s->l + at, l);
            store(s->q + at, l);
        }
        NAME(solve_group)(s, first / QPC_SWEEP_LANES, s->q);
        for (int32_t i = first; i < end; i++) {
            int64_t at = 4 * (int64_t)i;
            quad t = load(s->way + at);
            add(&curve, (load(s->l + at) + times(s->D, i, t)) * (t + load(s->q + at)));
        }
    }
    return total(&curve);
}

/// c = Z'W r: what the coarse space sees of a right-hand side.
TARGET static void NAME(restrict_to)(qpc_ssor *s) {
    const qpc_coarse *z = s->coarse;
    memset(s->c, 0, 4 * ((size_t)z->count + 1) * sizeof *s->c);
    for (int32_t i = 0; i < s->K->count; i++) {
        float w = z->weight[i];
        quad r = load(s->r + 4 * (int64_t)i);
        NAME(add_to)(s->c + 4 * (int64_t)z->at[i], (quad){w, w, w, 0} * times(s->D, i, r));
        NAME(add_left)(s, i, r);
    }
    NAME(add_left_of_rows)(s, s->r, NULL);
}

/// d = Z mu, r -= W^-1 (K + E) Z mu; no direction yet.
TARGET static void NAME(take_coarse)(qpc_ssor *s) {
    const qpc_coarse *z = s->coarse;
    memset(s->p, 0, 4 * (size_t)s->K->count * sizeof *s->p);
    NAME(spread)(s);
    for (int32_t first = 0; first < s->K->count; first += QPC_SWEEP_LANES) {
        int32_t end = first + QPC_SWEEP_LANES < s->K->count ? first + QPC_SWEEP_LANES : s->K->count;
        for (int32_t i = first; i < end; i++)
            store(s->q + 4 * (int64_t)i, load(s->p + 4 * (int64_t)i) - NAME(coarse_left)(z, i, s->mu));
        NAME(solve_group)(s, first / QPC_SWEEP_LANES, s->q);
        for (int32_t i = first; i < end; i++) {
            int64_t at = 4 * (int64_t)i;
            float w = z->weight[i];
            quad d = (quad){w, w, w, 0} * load(s->mu + 4 * (int64_t)z->at[i]);
            store(s->d + at, d);
            store(s->r + at, load(s->r + at) + load(s->q + at) - d);
            store(s->way + at, (quad){0});
            store(s->l + at, (quad){0});
        }
    }
}

#undef TARGET
#undef NAME
