/// Substitutions with a supernodal L L', for one instruction set. Included by factor_solve.c with
/// TARGET, NAME(x), the vector V of 8 / PARTS doubles and the number of rows ROWS that its
/// registers hold; no include guard. No fused multiply-adds and one order of sums, so that every
/// set gives the same bits.
///
/// A supernode: `cols` columns of L with one list of rows below them, stored as a dense block by
/// columns, `ld` rows high; its first `cols` rows are the triangle on the diagonal.

#define INLINE static inline TARGET QPC_ALWAYS_INLINE

// ---- eight right-hand sides side by side: row i of x at x[i * PARTS] ----

/// x[row] -= L[row, 0..cols) v for ROWS or fewer rows of the block at l.
INLINE void NAME(down)(const double *l, int64_t ld, int32_t rows, int32_t cols, const int32_t *row,
                       const V *v, V *x) {
    V a[ROWS][PARTS];
    for (int32_t i = 0; i < rows; i++)
        for (int32_t k = 0; k < PARTS; k++) a[i][k] = x[(int64_t)row[i] * PARTS + k];
    for (int32_t j = 0; j < cols; j++, l += ld, v += PARTS)
        for (int32_t i = 0; i < rows; i++)
            for (int32_t k = 0; k < PARTS; k++) a[i][k] -= l[i] * v[k];
    for (int32_t i = 0; i < rows; i++)
        for (int32_t k = 0; k < PARTS; k++) x[(int64_t)row[i] * PARTS + k] = a[i][k];
}

INLINE void NAME(down8)(const double *l, int64_t ld, int32_t rows, int32_t cols, const int32_t *row,
                        const V *v, V *x) {
    int32_t i = 0;
    for (; i + ROWS <= rows; i += ROWS) NAME(down)(l + i, ld, ROWS, cols, row + i, v, x);
    for (; i < rows; i++) NAME(down)(l + i, ld, 1, cols, row + i, v, x);
}

/// v -= L[0..rows, 0..cols)' x for ROWS or fewer columns.
INLINE void NAME(up)(const double *l, int64_t ld, int32_t rows, int32_t cols, const int32_t *row,
                     V *v, const V *x) {
    V a[ROWS][PARTS];
    for (int32_t j = 0; j < cols; j++)
        for (int32_t k = 0; k < PARTS; k++) a[j][k] = v[j * PARTS + k];
    for (int32_t i = 0; i < rows; i++, l++) {
        const V *t = x + (int64_t)row[i] * PARTS;
        for (int32_t j = 0; j < cols; j++)
            for (int32_t k = 0; k < PARTS; k++) a[j][k] -= l[j * ld] * t[k];
    }
    for (int32_t j = 0; j < cols; j++)
        for (int32_t k = 0; k < PARTS; k++) v[j * PARTS + k] = a[j][k];
}

INLINE void NAME(up8)(const double *l, int64_t ld, int32_t rows, int32_t cols, const int32_t *row,
                      V *v, const V *x) {
    int32_t j = 0;
    for (; j + ROWS <= cols; j += ROWS)
        NAME(up)(l + j * ld, ld, rows, ROWS, row, v + (int64_t)j * PARTS, x);
    for (; j < cols; j++) NAME(up)(l + j * ld, ld, rows, 1, row, v + (int64_t)j * PARTS, x);
}

static TARGET void NAME(forward8)(const qpc_supernodes *L, double *values) {
    V *x = (V *)values;
    for (int32_t s = 0; s < L->count; s++) {
        int32_t first = L->column[s], cols = L->column[s + 1] - first,
                ld = L->row_start[s + 1] - L->row_start[s];
        const int32_t *row = L->row + L->row_start[s]; // row[0..cols) are the columns themselves
        const double *l = L->value + L->value_start[s];
        V *v = x + (int64_t)first * PARTS;
        bool zero = true;
        for (int32_t k = 0; k < 8 * cols && zero; k++) zero = values[8 * (int64_t)first + k] == 0;
        if (zero)
            continue; // the columns of rows of J are nearly empty: most of L is not on their way
        for (int32_t j = 0; j < cols; j += PANEL) {
            int32_t end = j + PANEL < cols ? j + PANEL : cols;
            for (int32_t k = j; k < end; k++) {
                const double *p = l + (int64_t)k * ld;
                for (int32_t q = 0; q < PARTS; q++) v[k * PARTS + q] /= p[k];
                for (int32_t i = k + 1; i < end; i++)
                    for (int32_t q = 0; q < PARTS; q++) v[i * PARTS + q] -= p[i] * v[k * PARTS + q];
            }
            NAME(down8)
            (l + (int64_t)j * ld + end, ld, cols - end, end - j, row + end, v + (int64_t)j * PARTS,
             x);
        }
        NAME(down8)(l + cols, ld, ld - cols, cols, row + cols, v, x);
    }
}

static TARGET void NAME(backward8)(const qpc_supernodes *L, double *values) {
    V *x = (V *)values;
    for (int32_t s = L->count - 1; s >= 0; s--) {
        int32_t first = L->column[s], cols = L->column[s + 1] - first,
                ld = L->row_start[s + 1] - L->row_start[s];
        const int32_t *row = L->row + L->row_start[s];
        const double *l = L->value + L->value_start[s];
        V *v = x + (int64_t)first * PARTS;
        NAME(up8)(l + cols, ld, ld - cols, cols, row + cols, v, x);
        for (int32_t j = (cols - 1) / PANEL * PANEL; j >= 0; j -= PANEL) {
            int32_t end = j + PANEL < cols ? j + PANEL : cols;
            NAME(up8)
            (l + (int64_t)j * ld + end, ld, cols - end, end - j, row + end, v + (int64_t)j * PARTS,
             x);
            for (int32_t k = end - 1; k >= j; k--) {
                const double *p = l + (int64_t)k * ld;
                for (int32_t i = k + 1; i < end; i++)
                    for (int32_t q = 0; q < PARTS; q++) v[k * PARTS + q] -= p[i] * v[i * PARTS + q];
                for (int32_t q = 0; q < PARTS; q++) v[k * PARTS + q] /= p[k];
            }
        }
    }
}

// ---- one right-hand side: eight rows at a time ----

static TARGET void NAME(forward1)(const qpc_supernodes *L, double *x, double *below) {
    for (int32_t s = 0; s < L->count; s++) {
        int32_t first = L->column[s], cols = L->column[s + 1] - first,
                ld = L->row_start[s + 1] - L->row_start[s];
        const int32_t *row = L->row + L->row_start[s];
        const double *l = L->value + L->value_start[s];
        double *v = x + first;
        int32_t rows = ld - cols, i = 0;
        bool zero = true;
        for (int32_t k = 0; k < cols && zero; k++) zero = v[k] == 0;
        if (zero) continue;
        for (int32_t j = 0; j < cols; j++) {
            const double *p = l + (int64_t)j * ld;
            double t = v[j] / p[j];
            v[j] = t;
            for (int32_t k = j + 1; k < cols; k++) v[k] -= p[k] * t;
        }
        l += cols;
        row += cols;
        for (; i + 8 <= rows; i += 8) {
            V a[PARTS] = {0};
            const double *p = l + i;
            for (int32_t j = 0; j < cols; j++, p += ld)
                for (int32_t k = 0; k < PARTS; k++) a[k] += ((const V *)p)[k] * v[j];
            for (int32_t k = 0; k < PARTS; k++) ((V *)below)[k] = a[k];
            for (int32_t k = 0; k < 8; k++) x[row[i + k]] -= below[k];
        }
        for (; i < rows; i++) {
            double a = 0;
            const double *p = l + i;
            for (int32_t j = 0; j < cols; j++, p += ld) a += p[0] * v[j];
            x[row[i]] -= a;
        }
    }
}

/// sum_i p[i] y[i]
INLINE double NAME(dot1)(const double *p, const double *y, int32_t count) {
    V a[PARTS] = {0};
    double e[8], sum = 0;
    int32_t i = 0;
    if (count >= 8) {
        for (; i + 8 <= count; i += 8)
            for (int32_t k = 0; k < PARTS; k++)
                a[k] += ((const V *)(p + i))[k] * ((const V *)(y + i))[k];
        for (int32_t k = 0; k < PARTS; k++) ((V *)e)[k] = a[k];
        sum = ((e[0] + e[4]) + (e[2] + e[6])) + ((e[1] + e[5]) + (e[3] + e[7]));
    }
    for (; i < count; i++) sum += p[i] * y[i];
    return sum;
}

static TARGET void NAME(backward1)(const qpc_supernodes *L, double *x, double *below) {
    for (int32_t s = L->count - 1; s >= 0; s--) {
        int32_t first = L->column[s], cols = L->column[s + 1] - first,
                ld = L->row_start[s + 1] - L->row_start[s];
        const int32_t *row = L->row + L->row_start[s];
        const double *l = L->value + L->value_start[s];
        double *v = x + first;
        for (int32_t i = cols; i < ld; i++) below[i - cols] = x[row[i]];
        for (int32_t j = cols - 1; j >= 0; j--) {
            const double *p = l + (int64_t)j * ld;
            double t = v[j] - NAME(dot1)(p + cols, below, ld - cols);
            v[j] = (t - NAME(dot1)(p + j + 1, v + j + 1, cols - j - 1)) / p[j];
        }
    }
}

#undef INLINE
#undef TARGET
#undef NAME
#undef V
#undef PARTS
#undef ROWS
