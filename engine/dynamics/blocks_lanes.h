/// The product of blocks.c, included once for each instruction set: TARGET, NAME. Both give the same bits.

/// y = K x, both (count x 4) with zeros: rows of blocks, three entries and one too many, against x_j for the sum of this
/// node and times x_i for the other's.
TARGET static void NAME(multiply)(const qpc_blocks *b, const double *x, double *y) {
    const double *value = b->value;
    for (int64_t i = 0; i < b->count; i++) {
        const double *d = b->diagonal + 9 * i;
        four xi = *(const four *)(x + 4 * i), zero = {0};
        four x0 = {xi[0], xi[0], xi[0], 0}, x1 = {xi[1], xi[1], xi[1], 0}, x2 = {xi[2], xi[2], xi[2], 0};
        four s0 = zero, s1 = zero, s2 = zero;
        for (int32_t k = b->start[i]; k < b->start[i + 1]; k++) {
            const double *m = value + 9 * (int64_t)k;
            __builtin_prefetch(m + AHEAD);
            int64_t j = 4 * (int64_t)b->column[k];
            four r0 = *(const four *)m, r1 = *(const four *)(m + 3), r2 = *(const four *)(m + 6);
            four xj = *(const four *)(x + j), *yj = (four *)(y + j);
            s0 += r0 * xj;
            s1 += r1 * xj;
            s2 += r2 * xj;
            *yj += r0 * x0 + r1 * x1 + r2 * x2;
        }
        four r0 = *(const four *)d, r1 = *(const four *)(d + 3), r2 = *(const four *)(d + 6);
        s0 += r0 * xi;
        s1 += r1 * xi;
        s2 += r2 * xi;
        *(four *)(y + 4 * i) = (four){s0[0] + s0[1] + s0[2], s1[0] + s1[1] + s1[2], s2[0] + s2[1] + s2[2], 0};
    }
}

#undef TARGET
#undef NAME
