/// Reader of instance files; qp_file.h says what they are. Bytes are taken one by one, so that
/// alignment and the machine's byte order do not matter. Each kind has a list of its arrays, in the
/// order in which their sizes become known.
#include "tools/qp_file.h"

#include "base/mem.h"
#include "tools/read_file.h"

#include <math.h>
#include <string.h>

enum { HEAD = 64, ENTRY = 64, NAME = 32, REALS = 1, INTS = 2, ARRAYS_MOST = 256 };
static const char MAGIC[] = "QPBIN01\n";

static uint64_t little(const uint8_t *p, int size) {
    uint64_t v = 0;
    for (int i = size - 1; i >= 0; i--) v = v << 8 | p[i];
    return v;
}

static double real(const uint8_t *p) {
    uint64_t bits = little(p, 8);
    double v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

#define CORRUPT(...) qpc_fail(err, QPC_ERR_CORRUPT, __VA_ARGS__)

// ---- the lists of arrays ----

typedef enum extent { // how many elements
    ONE,
    DIMS_QP,  // 5
    DIMS_TWO, // 2
    N,
    N_STARTS, // n + 1
    M,
    M_STARTS,
    M3,
    M3_STARTS,
    ENTRIES // the last start of the matrix before it
} extent;

typedef enum rule { // what an element may be, beyond finite
    ANY,
    SIZES,   // dims
    STARTS,  // 0, then never falling
    LOWER,   // indices of a lower triangle by columns, the diagonal first
    COLUMNS, // strictly ascending in a row
    PIVOTS,  // values of such a triangle: positive diagonal
    POSITIVE,
    NOT_NEGATIVE,
    FLAG, // 0 or 1
    STATE // 0 to 3
} rule;

typedef struct spec {
    const char *name;
    int type; // REALS or INTS
    extent count;
    rule rule;
    int need; // 0: may be missing, 1: must be there, 2: must be there if the QP is infeasible
    size_t place;
} spec;

#define AT(member) offsetof(qp_file, member)
static const size_t TEMPORARY = SIZE_MAX; // looked at, not kept

static const spec QP_ARRAYS[] = {
    {"dims", INTS, DIMS_QP, SIZES, 1, TEMPORARY},
    {"status", INTS, ONE, FLAG, 1, TEMPORARY},
    {"K_p", INTS, N_STARTS, STARTS, 1, AT(K.start)},
    {"K_i", INTS, ENTRIES, LOWER, 1, AT(K.index)},
    {"K_x", REALS, ENTRIES, PIVOTS, 1, AT(K.value)},
    {"b", REALS, N, ANY, 1, AT(b)},
    {"J_p", INTS, M_STARTS, STARTS, 1, AT(J.start)},
    {"J_i", INTS, ENTRIES, COLUMNS, 1, AT(J.index)},
    {"J_x", REALS, ENTRIES, ANY, 1, AT(J.value)},
    {"c", REALS, M, ANY, 1, AT(c)},
    {"type", INTS, M, FLAG, 1, AT(type)},
    {"row_id", INTS, M, ANY, 1, AT(row_id)},
    {"kappa", REALS, M, POSITIVE, 1, AT(kappa)},
    {"relax_s", REALS, M, ANY, 2, AT(relax)},
    {"farkas", REALS, M, ANY, 2, AT(farkas)},
    {"x", REALS, N, ANY, 1, AT(x)},
    {"lam", REALS, M, ANY, 1, AT(lam)},
    {"state", INTS, M, STATE, 0, AT(state)},
    {"objective", REALS, ONE, ANY, 0, AT(objective)},
    {"S", REALS, ONE, NOT_NEGATIVE, 1, TEMPORARY},
};
static const spec LCP_ARRAYS[] = {
    {"dims", INTS, DIMS_TWO, SIZES, 1, TEMPORARY},
    {"status", INTS, ONE, FLAG, 0, TEMPORARY},
    {"A_p", INTS, M_STARTS, STARTS, 1, AT(A.start)},
    {"A_i", INTS, ENTRIES, COLUMNS, 1, AT(A.index)},
    {"A_x", REALS, ENTRIES, ANY, 1, AT(A.value)},
    {"b", REALS, M, ANY, 1, AT(b)},
    {"eps", REALS, ONE, ANY, 0, AT(eps)},
    {"J_p", INTS, M_STARTS, STARTS, 1, AT(J.start)},
    {"J_i", INTS, ENTRIES, COLUMNS, 1, AT(J.index)},
    {"J_x", REALS, ENTRIES, ANY, 1, AT(J.value)},
    {"M", REALS, N, POSITIVE, 1, AT(mass)},
    {"v", REALS, N, ANY, 1, AT(velocity)},
    {"f", REALS, M, ANY, 1, AT(f)},
    {"w", REALS, M, ANY, 1, AT(w)},
    {"v_plus", REALS, N, ANY, 1, AT(v_plus)},
    {"S", REALS, ONE, NOT_NEGATIVE, 1, TEMPORARY},
};
static const spec FRICTION_ARRAYS[] = {
    {"dims", INTS, DIMS_TWO, SIZES, 1, TEMPORARY},
    {"status", INTS, ONE, FLAG, 0, TEMPORARY},
    {"W_p", INTS, M3_STARTS, STARTS, 1, AT(A.start)},
    {"W_i", INTS, ENTRIES, COLUMNS, 1, AT(A.index)},
    {"W_x", REALS, ENTRIES, ANY, 1, AT(A.value)},
    {"q", REALS, M3, ANY, 1, AT(q)},
    {"mu", REALS, M, NOT_NEGATIVE, 1, AT(mu)},
    {"r", REALS, M3, ANY, 1, AT(r)},
    {"u", REALS, M3, ANY, 1, AT(u)},
    {"state", INTS, M, STATE, 0, AT(state)},
    {"S", REALS, ONE, NOT_NEGATIVE, 1, TEMPORARY},
};

// ---- header and directory ----

typedef struct reader {
    const uint8_t *bytes;
    size_t size;
    uint32_t arrays;
    qp_file file;
    int32_t dims[5];
    const int32_t *starts; // of the matrix being read
    int32_t lines;         // its rows
} reader;

static qpc_status read_header(reader *r, qpc_error *err) {
    const uint8_t *p = r->bytes;
    if (r->size < 8 || memcmp(p, MAGIC, 8) != 0)
        return CORRUPT("not a file of instances: it does not start with QPBIN01");
    if (r->size < HEAD) return CORRUPT("%zu bytes, a header has %d", r->size, (int)HEAD);
    uint32_t version = (uint32_t)little(p + 8, 4), kind = (uint32_t)little(p + 40, 4);
    r->arrays = (uint32_t)little(p + 12, 4);
    uint64_t json = little(p + 16, 8), json_size = little(p + 24, 8), whole = little(p + 32, 8);
    if (version != 1) return CORRUPT("version %u, only 1 is known", version);
    if (whole != r->size)
        return CORRUPT("%zu bytes, but the header says %llu", r->size, (unsigned long long)whole);
    if (r->arrays > (r->size - HEAD) / ENTRY)
        return CORRUPT("%u arrays do not fit into a file of %zu bytes", r->arrays, r->size);
    if (r->arrays > ARRAYS_MOST)
        return CORRUPT("%u arrays, at most %d are read", r->arrays, (int)ARRAYS_MOST);
    if (json > r->size || json_size > r->size - json)
        return CORRUPT("metadata of %llu bytes at %llu are beyond the end",
                       (unsigned long long)json_size, (unsigned long long)json);
    if (kind < QP_KIND_QP || kind > QP_KIND_FRICTION)
        return CORRUPT("kind %u, must be 1 (QP), 2 (LCP) or 3 (friction)", kind);
    for (int i = 44; i < HEAD; i++)
        if (p[i] != 0) return CORRUPT("byte %d of the header is %u, not 0", i, p[i]);
    r->file.kind = (qp_kind)kind;
    return QPC_OK;
}

static const uint8_t *entry(const reader *r, uint32_t k) {
    return r->bytes + HEAD + (size_t)ENTRY * k;
}

static qpc_status check_directory(const reader *r, qpc_error *err) {
    size_t first = HEAD + (size_t)ENTRY * r->arrays;
    for (uint32_t k = 0; k < r->arrays; k++) {
        const uint8_t *e = entry(r, k);
        size_t length = 0;
        while (length < NAME && e[length] > ' ' && e[length] < 127) length++;
        if (length == 0 || length == NAME || e[length] != 0)
            return CORRUPT("array %u: its name is not a word of 1 to %d letters", k, NAME - 1);
        const char *name = (const char *)e;
        for (uint32_t other = 0; other < k; other++)
            if (strncmp((const char *)entry(r, other), name, NAME) == 0)
                return CORRUPT("%s: there are two of that name", name);
        uint64_t type = little(e + 32, 4), count = little(e + 40, 8), offset = little(e + 48, 8);
        if (type != REALS && type != INTS)
            return CORRUPT("%s: type %u, must be 1 (f64) or 2 (i32)", name, (unsigned)type);
        if (little(e + 36, 4) != 0 || little(e + 56, 8) != 0)
            return CORRUPT("%s: a reserved word of its entry is not 0", name);
        if (offset % 8 != 0 || offset < first)
            return CORRUPT("%s: offset %llu, must be a multiple of 8 from %zu on", name,
                           (unsigned long long)offset, first);
        if (offset > r->size || count > (r->size - offset) / (type == REALS ? 8 : 4))
            return CORRUPT("%s: %llu elements at %llu are beyond the end of %zu bytes", name,
                           (unsigned long long)count, (unsigned long long)offset, r->size);
    }
    return QPC_OK;
}

static const uint8_t *find(const reader *r, const char *name) {
    for (uint32_t k = 0; k < r->arrays; k++)
        if (strncmp((const char *)entry(r, k), name, NAME) == 0) return entry(r, k);
    return NULL;
}

// ---- elements ----

static qpc_status check_sizes(reader *r, const int32_t *v, int count, qpc_error *err) {
    for (int i = 0; i < count; i++)
        if (v[i] < 0) return CORRUPT("dims[%d]: %d, a count is never negative", i, v[i]);
    memcpy(r->dims, v, (size_t)count * sizeof *v);
    qp_file *f = &r->file;
    f->n = f->kind == QP_KIND_QP ? v[0] : f->kind == QP_KIND_LCP ? v[1] : 0;
    f->m = f->kind == QP_KIND_QP ? v[1] : v[0];
    f->equalities = f->kind == QP_KIND_QP ? v[4] : 0;
    if (f->kind == QP_KIND_FRICTION) {
        if (f->m > INT32_MAX / 3 - 1) return CORRUPT("dims[0]: %d contacts are too many", f->m);
        f->n = 3 * f->m;
    }
    if (f->n < 1) return CORRUPT("dims: no unknown");
    return QPC_OK;
}

static qpc_status check_starts(const reader *r, const spec *s, const int32_t *v, int32_t lines,
                               qpc_error *err) {
    if (v[0] != 0) return CORRUPT("%s[0]: %d, must be 0", s->name, v[0]);
    bool lower = strcmp(s->name, "K_p") == 0; // each column has its diagonal
    for (int32_t i = 0; i < lines; i++)
        if (v[i + 1] < v[i] || (lower && v[i + 1] == v[i]))
            return CORRUPT("%s[%d]: %d after %d%s", s->name, i + 1, v[i + 1], v[i],
                           lower ? ", a column has its diagonal at least" : "");
    int32_t nnz = strcmp(s->name, "K_p") == 0 ? r->dims[2] : r->dims[3];
    if (r->file.kind == QP_KIND_FRICTION) nnz = r->dims[1];
    if (r->file.kind != QP_KIND_LCP && v[lines] != nnz)
        return CORRUPT("%s[%d]: %d entries, but dims says %d", s->name, lines, v[lines], nnz);
    return QPC_OK;
}

static qpc_status check_indices(const reader *r, const spec *s, const int32_t *v, qpc_error *err) {
    int32_t columns = s->name[0] == 'J' || s->name[0] == 'K' ? r->file.n : r->lines;
    for (int32_t i = 0; i < r->lines; i++) {
        for (int32_t k = r->starts[i]; k < r->starts[i + 1]; k++) {
            bool first = k == r->starts[i];
            if (v[k] < 0 || v[k] >= columns)
                return CORRUPT("%s[%d]: index %d, must be from 0 to %d", s->name, k, v[k],
                               columns - 1);
            if (s->rule == LOWER && first && v[k] != i)
                return CORRUPT("%s[%d]: column %d starts with row %d, not with its diagonal",
                               s->name, k, i, v[k]);
            if (!first && v[k] <= v[k - 1])
                return CORRUPT("%s[%d]: %d after %d, indices must ascend", s->name, k, v[k],
                               v[k - 1]);
        }
    }
    return QPC_OK;
}

static qpc_status check_ints(reader *r, const spec *s, const int32_t *v, int32_t count,
                             qpc_error *err) {
    int32_t most = s->rule == FLAG ? 1 : 3;
    switch (s->rule) {
    case SIZES:
        return check_sizes(r, v, count, err);
    case STARTS:
        return check_starts(r, s, v, count - 1, err);
    case LOWER:
    case COLUMNS:
        return check_indices(r, s, v, err);
    case FLAG:
    case STATE:
        for (int32_t i = 0; i < count; i++)
            if (v[i] < 0 || v[i] > most)
                return CORRUPT("%s[%d]: %d, must be from 0 to %d", s->name, i, v[i], most);
        return QPC_OK;
    case ANY:
    case PIVOTS:
    case POSITIVE:
    case NOT_NEGATIVE:
    default:
        return QPC_OK;
    }
}

static qpc_status check_reals(const reader *r, const spec *s, const double *v, int32_t count,
                              qpc_error *err) {
    for (int32_t i = 0; i < count; i++) {
        if (!isfinite(v[i])) return CORRUPT("%s[%d]: %g, must be finite", s->name, i, v[i]);
        if (s->rule == POSITIVE && !(v[i] > 0))
            return CORRUPT("%s[%d]: %g, must be above 0", s->name, i, v[i]);
        if (s->rule == NOT_NEGATIVE && v[i] < 0)
            return CORRUPT("%s[%d]: %g, must not be negative", s->name, i, v[i]);
    }
    for (int32_t j = 0; s->rule == PIVOTS && j < r->lines; j++)
        if (!(v[r->starts[j]] > 0))
            return CORRUPT(
                "%s[%d]: diagonal %g of column %d, must be above 0: K is not positive definite",
                s->name, r->starts[j], v[r->starts[j]], j);
    return QPC_OK;
}

static int64_t count_of(const reader *r, extent e) {
    switch (e) {
    case ONE:
        return 1;
    case DIMS_QP:
        return 5;
    case DIMS_TWO:
        return 2;
    case N:
        return r->file.n;
    case N_STARTS:
        return (int64_t)r->file.n + 1;
    case M:
        return r->file.m;
    case M_STARTS:
        return (int64_t)r->file.m + 1;
    case M3:
        return 3 * (int64_t)r->file.m;
    case M3_STARTS:
        return 3 * (int64_t)r->file.m + 1;
    case ENTRIES:
    default:
        return r->starts[r->lines];
    }
}

/// Copies, checks and hands over one array.
static qpc_status read_array(reader *r, const spec *s, qpc_error *err) {
    const uint8_t *e = find(r, s->name);
    bool needed = s->need == 1 || (s->need == 2 && r->file.infeasible);
    if (e == NULL && needed) return CORRUPT("%s: the array is missing", s->name);
    if (e == NULL || (s->need == 2 && !r->file.infeasible)) return QPC_OK;
    int type = (int)little(e + 32, 4);
    int64_t want = count_of(r, s->count), count = (int64_t)little(e + 40, 8);
    if (type != s->type)
        return CORRUPT("%s: type %d, must be %d (%s)", s->name, type, s->type,
                       s->type == REALS ? "f64" : "i32");
    if (count != want)
        return CORRUPT("%s: %lld elements, must be %lld", s->name, (long long)count,
                       (long long)want);
    const uint8_t *from = r->bytes + little(e + 48, 8);
    size_t element = s->type == REALS ? sizeof(double) : sizeof(int32_t);
    void *copy = qpc_alloc_array((size_t)count, element);
    if (copy == NULL)
        return qpc_fail(err, QPC_ERR_MEMORY, "%s: no memory for %lld elements", s->name,
                        (long long)count);
    double *reals = copy;
    int32_t *ints = copy;
    for (int64_t i = 0; i < count; i++) {
        if (s->type == REALS)
            reals[i] = real(from + 8 * i);
        else
            ints[i] = (int32_t)(uint32_t)little(from + 4 * i, 4);
    }
    qpc_status status = s->type == REALS ? check_reals(r, s, reals, (int32_t)count, err)
                                         : check_ints(r, s, ints, (int32_t)count, err);
    if (status == QPC_OK && strcmp(s->name, "S") == 0) r->file.scale = reals[0];
    if (status == QPC_OK && strcmp(s->name, "status") == 0) r->file.infeasible = ints[0] == 1;
    if (status == QPC_OK && s->rule == STARTS) {
        r->starts = ints;
        r->lines = (int32_t)count - 1;
    }
    if (s->place == TEMPORARY || (status != QPC_OK && s->rule != STARTS)) {
        qpc_free(copy);
        return status;
    }
    memcpy((char *)&r->file + s->place, &copy, sizeof copy); // all members are pointers to objects
    return status;
}

static qpc_status check_types(const qp_file *f, qpc_error *err) {
    int32_t equalities = 0;
    for (int32_t i = 0; f->kind == QP_KIND_QP && i < f->m; i++) equalities += f->type[i];
    if (f->kind == QP_KIND_QP && equalities != f->equalities)
        return CORRUPT("type: %d equalities, but dims says %d", equalities, f->equalities);
    if (f->kind != QP_KIND_QP && f->infeasible)
        return CORRUPT("status[0]: 1, only a QP can be infeasible");
    return QPC_OK;
}

qpc_status qp_file_parse(const uint8_t *bytes, size_t size, qp_file *ret, qpc_error *err) {
    reader r = {.bytes = bytes, .size = size};
    qpc_status status = read_header(&r, err);
    if (status == QPC_OK) status = check_directory(&r, err);
    if (status != QPC_OK) return status;
    const spec *specs = r.file.kind == QP_KIND_QP    ? QP_ARRAYS
                        : r.file.kind == QP_KIND_LCP ? LCP_ARRAYS
                                                     : FRICTION_ARRAYS;
    size_t count = r.file.kind == QP_KIND_QP    ? sizeof QP_ARRAYS / sizeof *QP_ARRAYS
                   : r.file.kind == QP_KIND_LCP ? sizeof LCP_ARRAYS / sizeof *LCP_ARRAYS
                                                : sizeof FRICTION_ARRAYS / sizeof *FRICTION_ARRAYS;
    for (size_t i = 0; i < count && status == QPC_OK; i++) status = read_array(&r, &specs[i], err);
    if (status == QPC_OK) status = check_types(&r.file, err);
    if (status != QPC_OK) {
        qp_file_fini(&r.file);
        return status;
    }
    *ret = r.file;
    return QPC_OK;
}

qpc_status qp_file_read(const char *path, qp_file *ret, qpc_error *err) {
    uint8_t *bytes;
    size_t size;
    qpc_status status = tool_read_file(path, MAGIC, &bytes, &size, err);
    if (status != QPC_OK) return status;
    status = qp_file_parse(bytes, size, ret, err);
    qpc_free(bytes);
    return status;
}

void qp_file_fini(qp_file *f) {
    if (f == NULL) return;
    void *all[] = {f->K.start, f->K.index,  f->K.value, f->J.start, f->J.index, f->J.value,
                   f->A.start, f->A.index,  f->A.value, f->b,       f->c,       f->type,
                   f->row_id,  f->kappa,    f->x,       f->lam,     f->relax,   f->farkas,
                   f->mass,    f->velocity, f->eps,     f->f,       f->w,       f->v_plus,
                   f->q,       f->mu,       f->r,       f->u,       f->state,   f->objective};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) qpc_free(all[i]);
    *f = (qp_file){0};
}
