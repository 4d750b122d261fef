/// Inner loops of delassus.c for one instruction set. Included with TARGET, NAME(x) and the vector
/// V of 8 / PARTS doubles set; no include guard. Sums have one order, whatever the set: the same
/// bits.

static TARGET double NAME(dot)(const double *a, const double *b, int32_t count) {
    V s[2 * PARTS] = {0};
    int32_t k = 0;
    for (; k + 16 <= count; k += 16)
        for (int32_t p = 0; p < 2 * PARTS; p++)
            s[p] += ((const V *)(a + k))[p] * ((const V *)(b + k))[p];
    double e[8], sum = 0;
    for (int32_t p = 0; p < PARTS; p++) ((V *)e)[p] = s[p] + s[PARTS + p];
    for (; k < count; k++) sum += a[k] * b[k];
    return (((e[0] + e[4]) + (e[2] + e[6])) + ((e[1] + e[5]) + (e[3] + e[7]))) + sum;
}

/// y -= t[0] a + t[1] b + t[2] c + t[3] d
static TARGET void NAME(take4)(const double *a, const double *b, const double *c, const double *d,
                               const double *t, double *y, int32_t count) {
    int32_t k = 0;
    double t0 = t[0], t1 = t[1], t2 = t[2], t3 = t[3];
    for (; k + 8 <= count; k += 8)
        for (int32_t p = 0; p < PARTS; p++)
            ((V *)(y + k))[p] -= (((const V *)(a + k))[p] * t0 + ((const V *)(b + k))[p] * t1) +
                                 (((const V *)(c + k))[p] * t2 + ((const V *)(d + k))[p] * t3);
    for (; k < count; k++) y[k] -= (a[k] * t0 + b[k] * t1) + (c[k] * t2 + d[k] * t3);
}

#undef TARGET
#undef NAME
#undef V
#undef PARTS
