/// Reader of query files; query_file.h says what they are. Bytes are taken one by one, so that
/// alignment and the machine's byte order do not matter.
#include "tools/query_file.h"

#include "base/mem.h"
#include "tools/read_file.h"

#include <string.h>

enum { HEAD = 32, NAME = 32, RECORD = 232 };
static const char MAGIC[] = "QPCCDQ01";

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

typedef struct header {
    uint64_t version, head, record, count, classes, reserved;
} header;

static qpc_status parse_header(const uint8_t *bytes, size_t size, header *ret, qpc_error *err) {
    if (size < HEAD)
        return qpc_fail(err, QPC_ERR_CORRUPT, "%zu bytes, a header has %d", size, (int)HEAD);
    if (memcmp(bytes, MAGIC, 8) != 0)
        return qpc_fail(err, QPC_ERR_CORRUPT, "not a file of queries: it does not start with %s",
                        MAGIC);
    header h = {little(bytes + 8, 4),  little(bytes + 12, 4), little(bytes + 16, 4),
                little(bytes + 20, 4), little(bytes + 24, 4), little(bytes + 28, 4)};
    if (h.version != 1)
        return qpc_fail(err, QPC_ERR_CORRUPT, "version %u, only 1 is known", (unsigned)h.version);
    if (h.record != RECORD)
        return qpc_fail(err, QPC_ERR_CORRUPT, "records of %u bytes, version 1 has %d",
                        (unsigned)h.record, (int)RECORD);
    if (h.reserved != 0)
        return qpc_fail(err, QPC_ERR_CORRUPT, "the reserved word of the header is %u, not 0",
                        (unsigned)h.reserved);
    if (h.head != HEAD + NAME * h.classes)
        return qpc_fail(err, QPC_ERR_CORRUPT, "a header of %u bytes, but %u classes take %llu",
                        (unsigned)h.head, (unsigned)h.classes,
                        (unsigned long long)(HEAD + NAME * h.classes));
    uint64_t whole = h.head + RECORD * h.count; // below 2^41: no overflow
    if (whole != size)
        return qpc_fail(err, QPC_ERR_CORRUPT, "%zu bytes, but %u records and %u classes take %llu",
                        size, (unsigned)h.count, (unsigned)h.classes, (unsigned long long)whole);
    if (h.count > INT32_MAX || h.classes > UINT16_MAX + 1)
        return qpc_fail(err, QPC_ERR_CORRUPT, "%u records and %u classes are too many",
                        (unsigned)h.count, (unsigned)h.classes);
    *ret = h;
    return QPC_OK;
}

static qpc_status parse_record(const uint8_t *p, unsigned i, uint64_t classes, ccd_query *q,
                               qpc_error *err) {
    for (int k = 0; k < 4; k++) {
        const uint8_t *at0 = p + 24 * k, *at1 = p + 96 + 24 * k;
        q->x0[k] = v3(real(at0), real(at0 + 8), real(at0 + 16));
        q->x1[k] = v3(real(at1), real(at1 + 8), real(at1 + 16));
    }
    for (int k = 0; k < 2; k++) {
        q->toi[k] = real(p + 192 + 8 * k);
        q->dmin[k] = real(p + 208 + 8 * k);
    }
    if (p[224] > 1)
        return qpc_fail(err, QPC_ERR_CORRUPT, "record %u: kind %d, must be 0 or 1", i, p[224]);
    if (p[225] > 1)
        return qpc_fail(err, QPC_ERR_CORRUPT, "record %u: truth %d, must be 0 or 1", i, p[225]);
    q->edges = p[224] == 1;
    q->truth = p[225] == 1;
    q->class = (uint16_t)little(p + 226, 2);
    q->source = (uint32_t)little(p + 228, 4);
    if (q->class >= classes)
        return qpc_fail(err, QPC_ERR_CORRUPT, "record %u: class %u of %u", i, q->class,
                        (unsigned)classes);
    bool toi = q->truth ? 0 <= q->toi[0] && q->toi[0] <= q->toi[1] && q->toi[1] <= 1
                        : q->toi[0] == 2 && q->toi[1] == 2;
    if (!toi)
        return qpc_fail(err, QPC_ERR_CORRUPT,
                        "record %u: truth %d, but contact between times %.17g and %.17g", i,
                        q->truth, q->toi[0], q->toi[1]);
    bool dmin = q->truth ? q->dmin[0] == 0 && q->dmin[1] == 0
                         : 0 <= q->dmin[0] && q->dmin[0] <= q->dmin[1] && q->dmin[1] > 0 &&
                               isfinite(q->dmin[1]);
    if (!dmin)
        return qpc_fail(err, QPC_ERR_CORRUPT,
                        "record %u: truth %d, but a least distance between %.17g and %.17g", i,
                        q->truth, q->dmin[0], q->dmin[1]);
    return QPC_OK;
}

qpc_status ccd_query_file_parse(const uint8_t *bytes, size_t size, ccd_query_file *ret,
                                qpc_error *err) {
    header h = {0};
    qpc_status status = parse_header(bytes, size, &h, err);
    if (status != QPC_OK) return status;
    ccd_query_file file = {.count = (int32_t)h.count, .class_count = (int32_t)h.classes};
    file.queries = qpc_calloc(h.count, sizeof *file.queries);
    file.classes = qpc_calloc(h.classes, sizeof *file.classes);
    if (file.queries == NULL || file.classes == NULL) {
        ccd_query_file_fini(&file);
        return qpc_fail(err, QPC_ERR_MEMORY, "no memory for %u records", (unsigned)h.count);
    }
    for (size_t i = 0; i < h.classes; i++) {
        memcpy(file.classes[i], bytes + HEAD + NAME * i, NAME);
        for (char *c = file.classes[i]; *c != '\0'; c++) // goes to terminals and CSV
            if ((unsigned char)*c <= ' ' || *c >= 127 || *c == ',' || *c == '"') *c = '_';
    }
    for (size_t i = 0; i < h.count && status == QPC_OK; i++)
        status = parse_record(bytes + h.head + RECORD * i, (unsigned)i, h.classes, &file.queries[i],
                              err);
    if (status != QPC_OK) {
        ccd_query_file_fini(&file);
        return status;
    }
    *ret = file;
    return QPC_OK;
}

qpc_status ccd_query_file_read(const char *path, ccd_query_file *ret, qpc_error *err) {
    uint8_t *bytes;
    size_t size;
    qpc_status status = tool_read_file(path, MAGIC, &bytes, &size, err);
    if (status != QPC_OK) return status;
    status = ccd_query_file_parse(bytes, size, ret, err);
    qpc_free(bytes);
    return status;
}

void ccd_query_file_fini(ccd_query_file *file) {
    if (file == NULL) return;
    qpc_free(file->queries);
    qpc_free(file->classes);
    *file = (ccd_query_file){0};
}
