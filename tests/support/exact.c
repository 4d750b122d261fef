// Exact continuous contact of two primitives, see exact.h.
//
// All four points are coplanar at a contact, so a contact time is a root of
//     F(t) = det(p1 - p0, p2 - p0, p3 - p0),   a cubic with integer coefficients.
// F nonzero: every root r of F in [0, 1] is asked whether the primitives touch at r, by signs of
// polynomials of degree <= 4 at r. F zero (coplanar all the time): they touch at t = 0, or a vertex
// of one passes through an edge of the other; that is again a root of small polynomials.
// A root is a dyadic number, or the only root of a square-free f in (a, a + 1) / 2^k; the sign of g
// there is 0 if gcd(f, g) has it, else bisection makes g's Bernstein coefficients agree in the end.
#include "tests/support/exact.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <openssl/bn.h>

enum { DEGREE_MAX = 8, ROOTS_MAX = 8 };

struct qpc_exact {
    BN_CTX *ctx;
};

typedef struct poly { // n coefficients, rising powers, the last one not zero; n = 0: zero
    int n;
    BIGNUM *c[DEGREE_MAX + 1];
} poly;
typedef struct vpoly {
    poly p[3];
} vpoly;
typedef struct root {
    bool dyadic; // a / 2^k, else the only root of f in (a, a + 1) / 2^k
    poly f;      // square free, no root at either end
    BIGNUM *a;
    int k;
} root;
typedef struct roots {
    int count;
    root r[ROOTS_MAX];
} roots;

// ---- integers ----

static void need(bool ok) {
    if (ok) return;
    fprintf(stderr, "exact.c: out of memory\n");
    abort();
}
static BIGNUM *fresh(qpc_exact *e) {
    BIGNUM *b = BN_CTX_get(e->ctx);
    need(b != NULL);
    return b;
}
static int sgn(const BIGNUM *b) { return BN_is_zero(b) ? 0 : BN_is_negative(b) ? -1 : 1; }

// ---- polynomials; results are new integers of the present frame ----

static void trim(poly *p) {
    while (p->n > 0 && BN_is_zero(p->c[p->n - 1])) p->n--;
}
static poly copy(qpc_exact *e, const poly *a) {
    poly r = {.n = a->n};
    for (int i = 0; i < a->n; i++) {
        r.c[i] = fresh(e);
        need(BN_copy(r.c[i], a->c[i]) != NULL);
    }
    return r;
}
static poly sub(qpc_exact *e, const poly *a, const poly *b) {
    poly r = {.n = a->n > b->n ? a->n : b->n};
    for (int i = 0; i < r.n; i++) {
        r.c[i] = fresh(e);
        if (i < a->n) need(BN_copy(r.c[i], a->c[i]) != NULL);
        if (i < b->n) need(BN_sub(r.c[i], r.c[i], b->c[i]));
    }
    trim(&r);
    return r;
}
static void add_to(poly *r, const poly *b, qpc_exact *e) {
    while (r->n < b->n) r->c[r->n++] = fresh(e);
    for (int i = 0; i < b->n; i++) need(BN_add(r->c[i], r->c[i], b->c[i]));
    trim(r);
}
static poly mul(qpc_exact *e, const poly *a, const poly *b) {
    poly r = {.n = a->n && b->n ? a->n + b->n - 1 : 0};
    for (int i = 0; i < r.n; i++) r.c[i] = fresh(e);
    BIGNUM *t = fresh(e);
    for (int i = 0; i < a->n; i++) {
        for (int j = 0; j < b->n; j++) {
            need(BN_mul(t, a->c[i], b->c[j], e->ctx));
            need(BN_add(r.c[i + j], r.c[i + j], t));
        }
    }
    return r;
}
// Divide by the (positive) greatest common divisor of the coefficients.
static void primitive(qpc_exact *e, poly *p) {
    trim(p);
    if (p->n == 0) return;
    BIGNUM *g = fresh(e);
    for (int i = 0; i < p->n; i++) need(BN_gcd(g, g, p->c[i], e->ctx));
    BN_set_negative(g, 0);
    if (BN_is_one(g)) return;
    for (int i = 0; i < p->n; i++) need(BN_div(p->c[i], NULL, p->c[i], g, e->ctx));
}
// a := remainder, *quotient (may be NULL) := quotient of  |lead(b)|^s a  by b, s as needed: both are
// positive multiples of those over the rationals.
static void divide(qpc_exact *e, poly *a, const poly *b, poly *quotient) {
    BIGNUM *t = fresh(e), *m = fresh(e), *q = fresh(e);
    const BIGNUM *lead = b->c[b->n - 1];
    need(BN_copy(m, lead) != NULL);
    BN_set_negative(m, 0);
    bool negative = BN_is_negative(lead);
    if (quotient != NULL) {
        quotient->n = a->n >= b->n ? a->n - b->n + 1 : 0;
        for (int i = 0; i < quotient->n; i++) quotient->c[i] = fresh(e);
    }
    trim(a);
    while (a->n >= b->n) {
        int s = a->n - b->n;
        need(BN_copy(q, a->c[a->n - 1]) != NULL);
        if (negative) BN_set_negative(q, !BN_is_negative(q));
        for (int i = 0; i < a->n; i++) need(BN_mul(a->c[i], a->c[i], m, e->ctx));
        for (int i = 0; i < b->n; i++) {
            need(BN_mul(t, b->c[i], q, e->ctx));
            need(BN_sub(a->c[i + s], a->c[i + s], t));
        }
        if (quotient != NULL) {
            for (int i = 0; i < quotient->n; i++)
                need(BN_mul(quotient->c[i], quotient->c[i], m, e->ctx));
            need(BN_add(quotient->c[s], quotient->c[s], q));
        }
        trim(a);
    }
    if (quotient != NULL) trim(quotient);
}
static poly gcd(qpc_exact *e, const poly *a, const poly *b) {
    poly x = copy(e, a), y = copy(e, b);
    primitive(e, &x);
    primitive(e, &y);
    while (y.n > 0) {
        divide(e, &x, &y, NULL);
        primitive(e, &x);
        poly t = x;
        x = y;
        y = t;
    }
    return x;
}
// Sign of p(a / 2^k).
static int sign_at(qpc_exact *e, const poly *p, const BIGNUM *a, int k) {
    if (p->n == 0) return 0;
    BN_CTX_start(e->ctx);
    BIGNUM *r = fresh(e), *t = fresh(e);
    int d = p->n - 1;
    need(BN_copy(r, p->c[d]) != NULL);
    for (int i = d - 1; i >= 0; i--) {
        need(BN_mul(r, r, a, e->ctx));
        need(BN_lshift(t, p->c[i], k * (d - i)));
        need(BN_add(r, r, t));
    }
    int s = sgn(r);
    BN_CTX_end(e->ctx);
    return s;
}
// Signs of the Bernstein coefficients of p on [a, a + 1] / 2^k.
static void bernstein_signs(qpc_exact *e, const poly *p, const BIGNUM *a, int k,
                            int ret[DEGREE_MAX + 1]) {
    BN_CTX_start(e->ctx);
    int d = p->n - 1;
    BIGNUM *h[DEGREE_MAX + 1], *t = fresh(e), *s = fresh(e);
    for (int i = 0; i <= d; i++) {
        h[i] = fresh(e);
        need(BN_lshift(h[i], p->c[i], k * (d - i)));
    }
    for (int i = 0; i < d; i++) { // Taylor shift by a
        for (int j = d - 1; j >= i; j--) {
            need(BN_mul(t, h[j + 1], a, e->ctx));
            need(BN_add(h[j], h[j], t));
        }
    }
    // b_j = sum_i C(j, i) / C(d, i) h_i, times d!
    unsigned long fact[DEGREE_MAX + 1] = {1};
    for (int i = 1; i <= DEGREE_MAX; i++) fact[i] = fact[i - 1] * (unsigned long)i;
    for (int j = 0; j <= d; j++) {
        BN_zero(s);
        for (int i = 0; i <= j; i++) {
            unsigned long cji = fact[j] / (fact[i] * fact[j - i]);
            unsigned long w = cji * fact[i] * fact[d - i]; // C(j, i) d! / C(d, i)
            need(BN_copy(t, h[i]) != NULL);
            need(BN_mul_word(t, w));
            need(BN_add(s, s, t));
        }
        ret[j] = sgn(s);
    }
    BN_CTX_end(e->ctx);
}

// ---- roots in [0, 1] ----

static poly divide_linear(qpc_exact *e, const poly *f, const BIGNUM *a, int k) {
    poly x = copy(e, f), lin = {.n = 2, .c = {fresh(e), fresh(e)}}, q;
    need(BN_copy(lin.c[0], a) != NULL);
    BN_set_negative(lin.c[0], !BN_is_negative(a) && !BN_is_zero(a));
    need(BN_one(lin.c[1]) && BN_lshift(lin.c[1], lin.c[1], k));
    divide(e, &x, &lin, &q);
    primitive(e, &q);
    return q;
}
static void push_root(qpc_exact *e, roots *out, bool dyadic, const poly *f, const BIGNUM *a, int k) {
    need(out->count < ROOTS_MAX);
    root *r = &out->r[out->count++];
    r->dyadic = dyadic;
    r->f = dyadic ? (poly){0} : copy(e, f);
    r->a = fresh(e);
    need(BN_copy(r->a, a) != NULL);
    r->k = k;
}
// Isolates the roots of f in the open interval (a, a + 1) / 2^k; f has none at its ends. False: the
// midpoint *ret_a / 2^*ret_k is a root: divide it out and start again.
static bool isolate(qpc_exact *e, const poly *f, const BIGNUM *a, int k, roots *out, BIGNUM *ret_a,
                    int *ret_k) {
    int signs[DEGREE_MAX + 1], changes = 0, last = 0;
    bernstein_signs(e, f, a, k, signs);
    for (int i = 0; i < f->n; i++) {
        if (signs[i] != 0 && last != 0 && signs[i] != last) changes++;
        if (signs[i] != 0) last = signs[i];
    }
    if (changes == 0) return true;
    if (changes == 1) {
        push_root(e, out, false, f, a, k);
        return true;
    }
    BIGNUM *left = fresh(e), *right = fresh(e);
    need(BN_lshift1(left, a));
    need(BN_copy(right, left) != NULL && BN_add_word(right, 1));
    if (sign_at(e, f, right, k + 1) == 0) {
        need(BN_copy(ret_a, right) != NULL);
        *ret_k = k + 1;
        return false;
    }
    return isolate(e, f, left, k + 1, out, ret_a, ret_k) &&
           isolate(e, f, right, k + 1, out, ret_a, ret_k);
}
static roots roots_of(qpc_exact *e, const poly *p) { // p not zero
    roots out = {0};
    poly f = copy(e, p);
    primitive(e, &f);
    if (f.n <= 1) return out;
    // square-free part
    poly d = {.n = f.n - 1};
    for (int i = 0; i < d.n; i++) {
        d.c[i] = fresh(e);
        need(BN_copy(d.c[i], f.c[i + 1]) != NULL && BN_mul_word(d.c[i], (unsigned long)(i + 1)));
    }
    poly g = gcd(e, &f, &d);
    if (g.n > 1) {
        poly q;
        divide(e, &f, &g, &q);
        f = q;
        primitive(e, &f);
    }
    // roots at 0, 1 and at midpoints met on the way are dyadic: divide them out
    BIGNUM *a = fresh(e);
    for (int end = 0; end <= 1; end++) {
        need(BN_set_word(a, (unsigned long)end));
        if (f.n > 1 && sign_at(e, &f, a, 0) == 0) {
            push_root(e, &out, true, NULL, a, 0);
            f = divide_linear(e, &f, a, 0);
        }
    }
    int k = 0;
    for (;;) {
        if (f.n <= 1) return out;
        BIGNUM *zero = fresh(e);
        roots found = out;
        if (isolate(e, &f, zero, 0, &found, a, &k)) return found;
        push_root(e, &out, true, NULL, a, k);
        f = divide_linear(e, &f, a, k);
    }
}
static void refine(qpc_exact *e, root *r) {
    BN_CTX_start(e->ctx);
    BIGNUM *middle = fresh(e);
    int at_low = sign_at(e, &r->f, r->a, r->k);
    need(BN_lshift1(r->a, r->a));
    r->k++;
    need(BN_copy(middle, r->a) != NULL && BN_add_word(middle, 1));
    int s = sign_at(e, &r->f, middle, r->k);
    if (s == 0 || s == at_low) need(BN_copy(r->a, middle) != NULL);
    if (s == 0) r->dyadic = true;
    BN_CTX_end(e->ctx);
}
// Sign of g at the root.
static int sign_of(qpc_exact *e, root *r, const poly *g) {
    if (g->n == 0) return 0;
    if (g->n == 1) return sgn(g->c[0]);
    if (r->dyadic) return sign_at(e, g, r->a, r->k);
    BN_CTX_start(e->ctx);
    poly h = gcd(e, &r->f, g);
    int low = 0, high = 0;
    if (h.n > 1) {
        BIGNUM *b = fresh(e);
        need(BN_copy(b, r->a) != NULL && BN_add_word(b, 1));
        low = sign_at(e, &h, r->a, r->k);
        high = sign_at(e, &h, b, r->k);
    }
    BN_CTX_end(e->ctx);
    if (low * high < 0) return 0;
    for (;;) {
        if (r->dyadic) return sign_at(e, g, r->a, r->k);
        int s[DEGREE_MAX + 1];
        bernstein_signs(e, g, r->a, r->k, s);
        int i = 1;
        while (i < g->n && s[i] == s[0]) i++;
        if (i == g->n && s[0] != 0) return s[0];
        refine(e, r);
    }
}
static double root_floor(qpc_exact *e, root *r) {
    while (!r->dyadic && r->k < 62) refine(e, r);
    BN_CTX_start(e->ctx);
    BIGNUM *t = fresh(e);
    int shift = r->k - 62;
    need(shift >= 0 ? BN_rshift(t, r->a, shift) : BN_lshift(t, r->a, -shift));
    uint64_t top = (uint64_t)BN_get_word(t); // <= 2^62
    BN_CTX_end(e->ctx);
    double value = ldexp((double)(top >> 9), 9 - 62); // 53 bits: rounded down
    return value;
}

// ---- vectors of polynomials ----

static vpoly vsub(qpc_exact *e, const vpoly *a, const vpoly *b) {
    vpoly r;
    for (int i = 0; i < 3; i++) r.p[i] = sub(e, &a->p[i], &b->p[i]);
    return r;
}
static vpoly cross(qpc_exact *e, const vpoly *a, const vpoly *b) {
    vpoly r;
    for (int i = 0; i < 3; i++) {
        int j = (i + 1) % 3, k = (i + 2) % 3;
        poly s = mul(e, &a->p[j], &b->p[k]), t = mul(e, &a->p[k], &b->p[j]);
        r.p[i] = sub(e, &s, &t);
    }
    return r;
}
static poly dot(qpc_exact *e, const vpoly *a, const vpoly *b) {
    poly r = {0};
    for (int i = 0; i < 3; i++) {
        poly t = mul(e, &a->p[i], &b->p[i]);
        add_to(&r, &t, e);
    }
    return r;
}
static bool zero_at(qpc_exact *e, root *r, const vpoly *v) {
    for (int i = 0; i < 3; i++)
        if (sign_of(e, r, &v->p[i]) != 0) return false;
    return true;
}

// ---- the closed primitives at a root ----

static bool point_on_segment(qpc_exact *e, root *r, const vpoly *p, const vpoly *a, const vpoly *b) {
    vpoly d = vsub(e, b, a), q = vsub(e, p, a);
    if (zero_at(e, r, &d)) return zero_at(e, r, &q);
    vpoly x = cross(e, &q, &d);
    if (!zero_at(e, r, &x)) return false;
    poly s = dot(e, &q, &d), dd = dot(e, &d, &d), rest = sub(e, &dd, &s);
    return sign_of(e, r, &s) >= 0 && sign_of(e, r, &rest) >= 0;
}
static bool point_in_triangle(qpc_exact *e, root *r, const vpoly v[4]) {
    vpoly e1 = vsub(e, &v[2], &v[1]), e2 = vsub(e, &v[3], &v[1]), q = vsub(e, &v[0], &v[1]);
    vpoly n = cross(e, &e1, &e2);
    if (zero_at(e, r, &n))
        return point_on_segment(e, r, &v[0], &v[1], &v[2]) ||
               point_on_segment(e, r, &v[0], &v[2], &v[3]) ||
               point_on_segment(e, r, &v[0], &v[3], &v[1]);
    poly side = dot(e, &n, &q);
    if (sign_of(e, r, &side) != 0) return false;
    vpoly qe = cross(e, &q, &e2), eq = cross(e, &e1, &q);
    poly nn = dot(e, &n, &n), u = dot(e, &qe, &n), w = dot(e, &eq, &n);
    poly rest = sub(e, &nn, &u);
    rest = sub(e, &rest, &w);
    return sign_of(e, r, &u) >= 0 && sign_of(e, r, &w) >= 0 && sign_of(e, r, &rest) >= 0;
}
static bool segments_meet(qpc_exact *e, root *r, const vpoly v[4]) {
    vpoly da = vsub(e, &v[1], &v[0]), db = vsub(e, &v[3], &v[2]), q = vsub(e, &v[2], &v[0]);
    vpoly n = cross(e, &da, &db);
    if (zero_at(e, r, &n))
        return point_on_segment(e, r, &v[0], &v[2], &v[3]) ||
               point_on_segment(e, r, &v[1], &v[2], &v[3]) ||
               point_on_segment(e, r, &v[2], &v[0], &v[1]) ||
               point_on_segment(e, r, &v[3], &v[0], &v[1]);
    poly side = dot(e, &n, &q);
    if (sign_of(e, r, &side) != 0) return false;
    vpoly qb = cross(e, &q, &db), qa = cross(e, &q, &da);
    poly nn = dot(e, &n, &n), u = dot(e, &qb, &n), w = dot(e, &qa, &n);
    poly ru = sub(e, &nn, &u), rw = sub(e, &nn, &w);
    return sign_of(e, r, &u) >= 0 && sign_of(e, r, &w) >= 0 && sign_of(e, r, &ru) >= 0 &&
           sign_of(e, r, &rw) >= 0;
}

// ---- four points that stay in one plane: a point passes through a segment ----

static void take_earlier(double t, bool *hit, double *toi) {
    if (!*hit || t < *toi) *toi = t;
    *hit = true;
}
static poly common_factor(qpc_exact *e, const vpoly *v) {
    poly g = {0};
    for (int i = 0; i < 3; i++)
        if (v->p[i].n > 0) g = g.n > 0 ? gcd(e, &g, &v->p[i]) : copy(e, &v->p[i]);
    return g;
}
static void moving_point_segment(qpc_exact *e, const vpoly *p, const vpoly *a, const vpoly *b,
                                 bool *hit, double *toi) {
    vpoly d = vsub(e, b, a), q = vsub(e, p, a), x = cross(e, &q, &d);
    poly g = common_factor(e, &x);
    if (g.n > 0) { // on the line at the common roots only
        roots rs = roots_of(e, &g);
        for (int i = 0; i < rs.count; i++)
            if (point_on_segment(e, &rs.r[i], p, a, b))
                take_earlier(root_floor(e, &rs.r[i]), hit, toi);
        return;
    }
    // on the line all the time (or no line at all): on the segment at t = 0, or it meets an end of it
    root start = {.dyadic = true, .a = fresh(e)};
    if (point_on_segment(e, &start, p, a, b)) {
        take_earlier(0, hit, toi);
        return;
    }
    for (int end = 0; end < 2; end++) {
        vpoly w = vsub(e, p, end ? b : a);
        poly h = common_factor(e, &w);
        if (h.n == 0) take_earlier(0, hit, toi);
        if (h.n < 2) continue;
        roots rs = roots_of(e, &h);
        for (int i = 0; i < rs.count; i++) take_earlier(root_floor(e, &rs.r[i]), hit, toi);
    }
}

// ---- entry ----

// Doubles as integers over one common power of two; false if one is not finite.
static bool to_integers(qpc_exact *e, const double x0[12], const double x1[12], vpoly v[4]) {
    int low = INT32_MAX;
    for (int i = 0; i < 24; i++) {
        double x = i < 12 ? x0[i] : x1[i - 12];
        if (!isfinite(x)) return false;
        int exponent;
        if (x != 0) {
            (void)frexp(x, &exponent);
            if (exponent - 53 < low) low = exponent - 53;
        }
    }
    for (int i = 0; i < 12; i++) {
        BIGNUM *c[2];
        for (int j = 0; j < 2; j++) {
            double x = j ? x1[i] : x0[i];
            int exponent = 0;
            double f = frexp(x, &exponent);
            c[j] = fresh(e);
            if (x == 0) continue;
            need(BN_set_word(c[j], (unsigned long)ldexp(fabs(f), 53)));
            need(BN_lshift(c[j], c[j], exponent - 53 - low));
            BN_set_negative(c[j], x < 0);
        }
        need(BN_sub(c[1], c[1], c[0]));
        poly p = {.n = 2, .c = {c[0], c[1]}};
        trim(&p);
        v[i / 3].p[i % 3] = p;
    }
    return true;
}
static qpc_exact_answer decide(qpc_exact *e, bool edges, const double x0[12], const double x1[12],
                               double *ret_toi) {
    BN_CTX_start(e->ctx);
    qpc_exact_answer answer = QPC_EXACT_UNDECIDED;
    bool hit = false;
    double toi = 0;
    vpoly v[4];
    if (!to_integers(e, x0, x1, v)) goto done;
    vpoly e1 = vsub(e, &v[1], &v[0]), e2 = vsub(e, &v[2], &v[0]), e3 = vsub(e, &v[3], &v[0]);
    vpoly n = cross(e, &e1, &e2);
    poly F = dot(e, &n, &e3);
    if (F.n > 0) {
        roots rs = roots_of(e, &F);
        for (int i = 0; i < rs.count; i++)
            if (edges ? segments_meet(e, &rs.r[i], v) : point_in_triangle(e, &rs.r[i], v))
                take_earlier(root_floor(e, &rs.r[i]), &hit, &toi);
    } else {
        root start = {.dyadic = true, .a = fresh(e)};
        if (edges ? segments_meet(e, &start, v) : point_in_triangle(e, &start, v)) {
            take_earlier(0, &hit, &toi);
        } else if (edges) {
            moving_point_segment(e, &v[0], &v[2], &v[3], &hit, &toi);
            moving_point_segment(e, &v[1], &v[2], &v[3], &hit, &toi);
            moving_point_segment(e, &v[2], &v[0], &v[1], &hit, &toi);
            moving_point_segment(e, &v[3], &v[0], &v[1], &hit, &toi);
        } else {
            moving_point_segment(e, &v[0], &v[1], &v[2], &hit, &toi);
            moving_point_segment(e, &v[0], &v[2], &v[3], &hit, &toi);
            moving_point_segment(e, &v[0], &v[1], &v[3], &hit, &toi);
        }
    }
    answer = hit ? QPC_EXACT_HIT : QPC_EXACT_MISS;
    if (hit && ret_toi != NULL) *ret_toi = toi;
done:
    BN_CTX_end(e->ctx);
    return answer;
}

qpc_exact_answer qpc_exact_vt(qpc_exact *exact, const double x0[12], const double x1[12],
                              double *ret_toi) {
    return decide(exact, false, x0, x1, ret_toi);
}
qpc_exact_answer qpc_exact_ee(qpc_exact *exact, const double x0[12], const double x1[12],
                              double *ret_toi) {
    return decide(exact, true, x0, x1, ret_toi);
}

qpc_exact *qpc_exact_create(void) {
    qpc_exact *e = calloc(1, sizeof *e);
    if (e == NULL) return NULL;
    e->ctx = BN_CTX_new();
    if (e->ctx == NULL) {
        free(e);
        return NULL;
    }
    return e;
}
void qpc_exact_destroy(qpc_exact *exact) {
    if (exact == NULL) return;
    BN_CTX_free(exact->ctx);
    free(exact);
}
