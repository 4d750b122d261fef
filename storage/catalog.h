/// DATA/catalog.db on the inside: one connection behind a mutex, any thread. The public calls
/// (qpc_catalog_*) are in writer.h; this is what the writer uses beside them.
#ifndef QPC_STORAGE_CATALOG_H
#define QPC_STORAGE_CATALOG_H

#include "storage/runfile.h"
#include "storage/writer.h"

typedef struct qpc_catalog qpc_catalog;

qpc_status qpc_catalog_open(const char *data_dir, qpc_catalog **ret, qpc_error *err);
void qpc_catalog_close(qpc_catalog *catalog); // NULL is accepted
qpc_status qpc_catalog_add_run(qpc_catalog *catalog, const qpc_run_def *def, const char *file,
                               qpc_error *err);
qpc_status qpc_catalog_remove_run(qpc_catalog *catalog, const char *id, qpc_error *err);
qpc_status qpc_catalog_finish_run(qpc_catalog *catalog, const char *id, const char *state,
                                  const qpc_run_totals *totals, qpc_error *err);
/// Runs as the catalogue has them; only that of id if it is not NULL. Paths joined to the folder.
qpc_status qpc_catalog_read_runs(qpc_catalog *catalog, const char *id, qpc_catalog_run **ret,
                                 int32_t *ret_count, qpc_error *err);
/// The catalogue of a writer, and the counts of its open runs put into entries read.
qpc_catalog *qpc_writer_catalog(qpc_writer *writer);
void qpc_writer_live_counts(qpc_writer *writer, qpc_catalog_run *runs, int32_t count);

#endif
