/// The body of the batch filter for one width; included by filter.c once a variant, and nowhere
/// else, which is why it has no guard. The including file defines
///
///     WIDTH       lanes of a vector, and V its type (double or a vector of doubles)
///     TARGET      attributes of every function here
///     NAME(x)     x with the suffix of the variant
///     MIN, MAX    a < b ? a : b and a > b ? a : b, lane by lane
///     ABOVE(a, b) bits of the lanes with a > b; false where one is not a number
///     SPREAD(c)   c in all lanes
///
/// Everything else is + - * /, which round the same in every width (no contraction, filter.c).

typedef struct NAME(vec) {
    V x, y, z;
} NAME(vec);

TARGET static inline NAME(vec) NAME(sub)(NAME(vec) a, NAME(vec) b) {
    return (NAME(vec)){a.x - b.x, a.y - b.y, a.z - b.z};
}

TARGET static inline NAME(vec) NAME(add)(NAME(vec) a, NAME(vec) b) {
    return (NAME(vec)){a.x + b.x, a.y + b.y, a.z + b.z};
}

TARGET static inline NAME(vec) NAME(cross)(NAME(vec) a, NAME(vec) b) {
    return (NAME(vec)){a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x};
}

TARGET static inline V NAME(dot)(NAME(vec) a, NAME(vec) b) {
    return a.x * b.x + a.y * b.y + a.z * b.z;
}

TARGET static inline NAME(vec) NAME(load)(const double x[3][QPC_FILTER_LANES], int lane) {
    NAME(vec) p;
    memcpy(&p.x, &x[0][lane], sizeof p.x);
    memcpy(&p.y, &x[1][lane], sizeof p.y);
    memcpy(&p.z, &x[2][lane], sizeof p.z);
    return p;
}

/// The part of a across b; not a number where b is 0, which proves nothing.
TARGET static inline NAME(vec) NAME(across)(NAME(vec) a, NAME(vec) b) {
    V along = NAME(dot)(b, a) / NAME(dot)(b, b);
    return (NAME(vec)){a.x - along * b.x, a.y - along * b.y, a.z - along * b.z};
}

/// How far the lanes' values lie to one side of zero, all of them: max(least, -largest).
TARGET static inline V NAME(side)(V least, V largest) {
    return MAX(least, SPREAD(0) - largest);
}

/// Lanes that direction n separates at both ends by more than thr; thr2 is its square. Compared as
/// squares, so that no root is taken; below 1e-150 squares would lose bits to underflow.
TARGET static inline unsigned NAME(apart)(int count, const NAME(vec) * w0, const NAME(vec) * w1,
                                          NAME(vec) n, V thr2) {
    V least = NAME(dot)(n, w0[0]), largest = least;
    for (int i = 0; i < count; i++) {
        V a = NAME(dot)(n, w0[i]), b = NAME(dot)(n, w1[i]);
        least = MIN(least, MIN(a, b));
        largest = MAX(largest, MAX(a, b));
    }
    V far = NAME(side)(least, largest), nn = NAME(dot)(n, n);
    return ABOVE(far * far, thr2 * nn) & ABOVE(far, SPREAD(0)) & ABOVE(nn, SPREAD(1e-150));
}

/// One axis: how far all values lie to one side, at both ends. reach gains a bound of their sizes.
#define AXIS(c)                                                                                    \
    do {                                                                                           \
        V least = MIN(w0[0].c, w1[0].c), largest = MAX(w0[0].c, w1[0].c);                          \
        for (int i = 1; i < count; i++) {                                                          \
            least = MIN(least, MIN(w0[i].c, w1[i].c));                                             \
            largest = MAX(largest, MAX(w0[i].c, w1[i].c));                                         \
        }                                                                                          \
        V side = NAME(side)(least, largest);                                                       \
        reach = reach + MAX(SPREAD(0) - least, largest);                                           \
        axes = MAX(axes, side);                                                                    \
    } while (0)

/// Bits of WIDTH lanes from `lane` on that are not proven apart. Forced inline, so that `vt` is
/// known and w lives in registers.
QPC_ALWAYS_INLINE TARGET static inline unsigned
NAME(lanes)(bool vt, const qpc_filter_block *block, int lane) {
    const int count = vt ? 3 : 4;
    NAME(vec) x0[4], x1[4], w0[4], w1[4];
    for (int k = 0; k < 4; k++) {
        x0[k] = NAME(load)(block->x0[k], lane);
        x1[k] = NAME(load)(block->x1[k], lane);
    }
    for (int i = 0; i < count; i++) {
        int from = vt ? 0 : i >> 1, to = vt ? i + 1 : 2 + (i & 1);
        w0[i] = NAME(sub)(x0[from], x0[to]);
        w1[i] = NAME(sub)(x1[from], x1[to]);
    }
    V s, reach = SPREAD(0), axes = SPREAD(-1);
    memcpy(&s, &block->s[lane], sizeof s);
    AXIS(x);
    AXIS(y);
    AXIS(z);
    V thr = s * SPREAD(1 + 32 * UNIT) + (reach * SPREAD(32 * UNIT) + SPREAD(1e-70));
    unsigned apart = ABOVE(axes, thr);

    // At mid step, times two: the sides, the normal and the centre.
    V thr2 = thr * thr;
    NAME(vec) m[4];
    for (int i = 0; i < count; i++) m[i] = NAME(add)(w0[i], w1[i]);
    NAME(vec) a = NAME(sub)(m[vt ? 1 : 2], m[0]), b = NAME(sub)(m[vt ? 2 : 1], m[0]);
    NAME(vec) n = NAME(cross)(a, b), c = NAME(add)(m[0], m[1]);
    c = NAME(add)(c, m[2]);
    if (!vt) c = NAME(add)(c, m[3]);
    apart |= NAME(apart)(count, w0, w1, n, thr2);
    apart |= NAME(apart)(count, w0, w1, c, thr2);
    apart |= NAME(apart)(count, w0, w1, NAME(across)(c, n), thr2);

    // The minima above lose numbers that are not numbers; the centre does not.
    V size = c.x * SPREAD(0) + c.y * SPREAD(0) + c.z * SPREAD(0) + reach + s;
    const unsigned all = (1u << WIDTH) - 1, sane = ABOVE(SPREAD(1e60), size);
    if ((apart & sane) == all) return 0;

    // The mean motion: features that pass each other are apart across it, along a side of its
    // shadow.
    NAME(vec) v = NAME(sub)(w1[0], w0[0]);
    for (int i = 1; i < count; i++) v = NAME(add)(v, NAME(sub)(w1[i], w0[i]));
    apart |= NAME(apart)(count, w0, w1, NAME(cross)(v, a), thr2);
    apart |= NAME(apart)(count, w0, w1, NAME(cross)(v, b), thr2);
    if (vt) apart |= NAME(apart)(count, w0, w1, NAME(cross)(v, NAME(sub)(a, b)), thr2);
    apart |= NAME(apart)(count, w0, w1, NAME(across)(c, v), thr2);

    return ~(apart & sane) & all;
}

TARGET static void NAME(vt)(const qpc_filter_block *blocks, int32_t count, uint8_t *ret_open) {
    for (int32_t k = 0; k < count; k++) {
        unsigned open = 0;
        for (int lane = 0; lane < QPC_FILTER_LANES; lane += WIDTH)
            open |= NAME(lanes)(true, &blocks[k], lane) << lane;
        ret_open[k] = (uint8_t)open;
    }
}

TARGET static void NAME(ee)(const qpc_filter_block *blocks, int32_t count, uint8_t *ret_open) {
    for (int32_t k = 0; k < count; k++) {
        unsigned open = 0;
        for (int lane = 0; lane < QPC_FILTER_LANES; lane += WIDTH)
            open |= NAME(lanes)(false, &blocks[k], lane) << lane;
        ret_open[k] = (uint8_t)open;
    }
}

#undef WIDTH
#undef V
#undef TARGET
#undef NAME
#undef MIN
#undef MAX
#undef ABOVE
#undef SPREAD
#undef AXIS
