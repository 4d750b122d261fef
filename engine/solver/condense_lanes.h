/// The elimination of condense.c, included once for each instruction set: TARGET, NAME. All give
/// the same bits.

/// [D, b] of a node.
TARGET static inline void NAME(load)(const double *band, const double *b, int32_t node,
                                     four to[3]) {
    const double *r0 = band + (int64_t)node * 3 * STRIDE + BAND, *r1 = r0 + STRIDE,
                 *r2 = r1 + STRIDE;
    b += 3 * (int64_t)node;
    to[0] = (four){r0[0], r1[-1], r2[-2], b[0]};
    to[1] = (four){r1[-1], r1[0], r2[-1], b[1]};
    to[2] = (four){r2[-2], r2[-1], r2[0], b[2]};
}

TARGET static inline bool NAME(factor)(const four D[3], pivot *p) {
    double a = D[0][0];
    if (!good(a)) return false;
    p->d0 = 1 / a;
    p->l10 = D[1][0] * p->d0;
    p->l20 = D[2][0] * p->d0;
    double b = D[1][1] - p->l10 * D[1][0];
    if (!good(b)) return false;
    p->d1 = 1 / b;
    double c = D[2][1] - p->l20 * D[1][0];
    p->l21 = c * p->d1;
    double d = D[2][2] - p->l20 * D[2][0] - p->l21 * c;
    if (!good(d)) return false;
    p->d2 = 1 / d;
    return true;
}

/// x <- D^-1 x
TARGET static inline void NAME(solve)(const pivot *p, four x[3]) {
    four y = x[1] - p->l10 * x[0];
    four z = (x[2] - p->l20 * x[0] - p->l21 * y) * p->d2;
    y = y * p->d1 - p->l21 * z;
    x[0] = x[0] * p->d0 - p->l10 * y - p->l20 * z;
    x[1] = y;
    x[2] = z;
}

/// to <- from - A B; A: rows of 3, or with `transposed` its columns.
TARGET static inline void NAME(subtract)(const four from[3], const double *A, bool transposed,
                                         const four B[3], four to[3]) {
    int32_t down = transposed ? 1 : 3, across = transposed ? 3 : 1;
    for (int32_t i = 0; i < 3; i++, A += down)
        to[i] = from[i] - (A[0] * B[0] + A[across] * B[1] + A[2 * across] * B[2]);
}

/// Three numbers of each row, one behind the other; the fourth of the last one lands behind them.
TARGET static inline void NAME(store)(double *to, const four from[3]) {
    for (int32_t k = 0; k < 3; k++) *(four *)(to + 3 * k) = from[k];
}

/// One node at a loose end, the next one to the right or to the left: D of it to what it adds to
/// that one.
TARGET static inline bool NAME(step)(const qpc_qp *qp, qpc_condensed *c, int32_t i, bool leftward,
                                     four D[3]) {
    const double *K = qp->sys->band;
    const four zero[3] = {{0}};
    double *back = c->back + (int64_t)i * BACK;
    block E = before_of(K, leftward ? i : i + 1);
    four here[3], Q[3];
    pivot p;
    NAME(load)(K, qp->b, i, here);
    for (int32_t k = 0; k < 3; k++) here[k] += D[k];
    if (!NAME(factor)(here, &p)) return false;
    int32_t down = leftward ? 3 : 1, across = leftward ? 1 : 3;
    for (int32_t k = 0; k < 3; k++)
        Q[k] =
            (four){E.m[down * k], E.m[down * k + across], E.m[down * k + 2 * across], here[k][3]};
    NAME(solve)(&p, Q);
    NAME(store)(back, zero);
    NAME(store)(back + 9, Q);
    for (int32_t k = 0; k < 3; k++) back[18 + k] = Q[k][3];
    NAME(subtract)(zero, E.m, leftward, Q, D);
    return true;
}

/// In front of the first kept node and behind the last one, by turns: a step waits for its pivots,
/// and the two do not for each other. -1 or the node without a positive pivot.
TARGET static int32_t NAME(eliminate_ends)(const qpc_qp *qp, qpc_condensed *c, int32_t first,
                                           four head[3], four tail[3]) {
    const four zero[3] = {{0}};
    memcpy(head, zero, sizeof zero);
    memcpy(tail, zero, sizeof zero);
    for (int32_t i = 0, j = c->nodes - 1; i < first || j > c->last; i++, j--) {
        if (j > c->last && !NAME(step)(qp, c, j, true, tail)) return j;
        if (i < first && !NAME(step)(qp, c, i, false, head)) return i;
    }
    return -1;
}

TARGET static int32_t NAME(eliminate)(const qpc_qp *qp, qpc_condensed *c, double *b) {
    const double *K = qp->sys->band;
    const four zero[3] = {{0}};
    int32_t first = 0,
            left = -1; // first kept node; the last one so far, by its number among the kept
    four D[3], left_D[3], tail[3]; // with their right-hand sides
    block F = {{0}};
    while (c->place[first] < 0) first++;
    int32_t bad = NAME(eliminate_ends)(qp, c, first, D, tail);
    if (bad >= 0) return bad;
    bool between = first > 0; // D holds what eliminated nodes subtract
    memcpy(left_D, zero, sizeof zero);
    for (int32_t i = first; i <= c->last; i++) {
        four here[3];
        NAME(load)(K, qp->b, i, here);
        if (!between) {
            memcpy(D, here, sizeof here);
            if (i > 0) F = before_of(K, i);
        } else {
            for (int32_t k = 0; k < 3; k++) D[k] += here[k];
        }
        if (c->place[i] >= 0) {
            if (left >= 0) {
                put_node(c->sys.band, b, left, left_D);
                put_before(c->sys.band, left + 1, &F);
            }
            left = c->place[i];
            for (int32_t k = 0; k < 3 && i == c->last; k++) D[k] += tail[k];
            memcpy(left_D, D, sizeof D);
            between = false;
            continue;
        }
        pivot p;
        if (!NAME(factor)(D, &p)) return i;
        double *back = c->back + (int64_t)i * BACK;
        block E = before_of(K, i + 1);
        four P[3], Q[3], next[3];
        for (int32_t k = 0; k < 3; k++) {
            Q[k] = (four){E.m[k], E.m[3 + k], E.m[6 + k], D[k][3]};
            P[k] = (four){F.m[3 * k], F.m[3 * k + 1], F.m[3 * k + 2], 0};
        }
        NAME(solve)(&p, Q);
        NAME(solve)(&p, P);
        for (int32_t k = 0; k < 3; k++) P[k][3] = Q[k][3];
        NAME(subtract)(left_D, F.m, true, P, left_D);
        NAME(store)(back, P);
        NAME(store)(back + 9, Q);
        for (int32_t k = 0; k < 3; k++) back[18 + k] = Q[k][3];
        NAME(subtract)(zero, E.m, false, Q, D);
        NAME(subtract)(zero, E.m, false, P, next);
        for (int32_t k = 0; k < 9; k++) F.m[k] = next[k / 3][k % 3];
        between = true;
    }
    put_node(c->sys.band, b, left, left_D);
    return -1;
}

#undef TARGET
#undef NAME
