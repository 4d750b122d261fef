#include "tests/unit/storage/faultvfs.h"

#include <sqlite3.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct fault_file {
    sqlite3_file base;
    sqlite3_io_methods methods; // of this file: the version of the real one
    sqlite3_file *real;         // behind this struct
} fault_file;

static sqlite3_vfs *real_vfs;
static sqlite3_vfs fault_vfs;
static atomic_int kinds, code, system_error;
static atomic_long countdown, slow_ms, syncs;
static atomic_bool sticky, fired, without_shm;
static _Thread_local bool gave_error;

void faultvfs_arm(int new_kinds, long nth, int new_code, int new_errno, bool new_sticky) {
    atomic_store(&kinds, 0);
    atomic_store(&code, new_code);
    atomic_store(&system_error, new_errno);
    atomic_store(&sticky, new_sticky);
    atomic_store(&fired, false);
    atomic_store(&countdown, nth);
    atomic_store(&kinds, nth > 0 ? new_kinds : 0);
}

bool faultvfs_fired(void) {
    return atomic_load(&fired);
}

void faultvfs_slow_sync(long ms) {
    atomic_store(&slow_ms, ms);
    atomic_store(&syncs, 0);
}

long faultvfs_syncs(void) {
    return atomic_load(&syncs);
}

void faultvfs_without_shm(bool without) {
    atomic_store(&without_shm, without);
}

/// Must this operation fail?
static bool hit(int kind) {
    gave_error = false;
    if ((atomic_load(&kinds) & kind) == 0) return false;
    long n = atomic_fetch_sub(&countdown, 1);
    if (n > 1 || (n < 1 && !atomic_load(&sticky))) return false;
    atomic_store(&fired, true);
    gave_error = true;
    return true;
}

static sqlite3_file *real(sqlite3_file *file) {
    return ((fault_file *)(void *)file)->real;
}

static int f_close(sqlite3_file *f) {
    return real(f)->pMethods->xClose(real(f));
}
static int f_read(sqlite3_file *f, void *out, int n, sqlite3_int64 at) {
    return real(f)->pMethods->xRead(real(f), out, n, at);
}
static int f_write(sqlite3_file *f, const void *data, int n, sqlite3_int64 at) {
    if (hit(FAULT_WRITE)) {
        // A real disk takes what fits first.
        if (n > 512) real(f)->pMethods->xWrite(real(f), data, n / 2, at);
        return atomic_load(&code);
    }
    return real(f)->pMethods->xWrite(real(f), data, n, at);
}
static int f_truncate(sqlite3_file *f, sqlite3_int64 size) {
    if (hit(FAULT_TRUNCATE)) return SQLITE_IOERR_TRUNCATE;
    return real(f)->pMethods->xTruncate(real(f), size);
}
static int f_sync(sqlite3_file *f, int flags) {
    long ms = atomic_load(&slow_ms);
    atomic_fetch_add(&syncs, 1);
    if (ms > 0) nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
    if (hit(FAULT_SYNC)) return SQLITE_IOERR_FSYNC;
    return real(f)->pMethods->xSync(real(f), flags);
}
static int f_size(sqlite3_file *f, sqlite3_int64 *size) {
    return real(f)->pMethods->xFileSize(real(f), size);
}
static int f_lock(sqlite3_file *f, int level) {
    return real(f)->pMethods->xLock(real(f), level);
}
static int f_unlock(sqlite3_file *f, int level) {
    return real(f)->pMethods->xUnlock(real(f), level);
}
static int f_reserved(sqlite3_file *f, int *out) {
    return real(f)->pMethods->xCheckReservedLock(real(f), out);
}
static int f_control(sqlite3_file *f, int op, void *arg) {
    return real(f)->pMethods->xFileControl(real(f), op, arg);
}
static int f_sector(sqlite3_file *f) {
    return real(f)->pMethods->xSectorSize(real(f));
}
static int f_device(sqlite3_file *f) {
    return real(f)->pMethods->xDeviceCharacteristics(real(f));
}
static int f_shm_map(sqlite3_file *f, int region, int size, int extend, void volatile **out) {
    if (extend && hit(FAULT_SHM)) return SQLITE_IOERR_SHMSIZE;
    return real(f)->pMethods->xShmMap(real(f), region, size, extend, out);
}
static int f_shm_lock(sqlite3_file *f, int at, int n, int flags) {
    return real(f)->pMethods->xShmLock(real(f), at, n, flags);
}
static void f_shm_barrier(sqlite3_file *f) {
    real(f)->pMethods->xShmBarrier(real(f));
}
static int f_shm_unmap(sqlite3_file *f, int remove) {
    return real(f)->pMethods->xShmUnmap(real(f), remove);
}

static int v_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *out, int flags,
                  int *out_flags) {
    (void)vfs;
    fault_file *file = (fault_file *)(void *)out;
    memset(file, 0, sizeof *file);
    if (hit(FAULT_OPEN)) return SQLITE_CANTOPEN;
    file->real = (sqlite3_file *)(void *)(file + 1);
    int rc = real_vfs->xOpen(real_vfs, name, file->real, flags, out_flags);
    if (file->real->pMethods == NULL) return rc;
    file->methods = (sqlite3_io_methods){
        .iVersion = atomic_load(&without_shm) || file->real->pMethods->iVersion < 2 ? 1 : 2,
        .xClose = f_close,
        .xRead = f_read,
        .xWrite = f_write,
        .xTruncate = f_truncate,
        .xSync = f_sync,
        .xFileSize = f_size,
        .xLock = f_lock,
        .xUnlock = f_unlock,
        .xCheckReservedLock = f_reserved,
        .xFileControl = f_control,
        .xSectorSize = f_sector,
        .xDeviceCharacteristics = f_device,
        .xShmMap = f_shm_map,
        .xShmLock = f_shm_lock,
        .xShmBarrier = f_shm_barrier,
        .xShmUnmap = f_shm_unmap};
    out->pMethods = &file->methods;
    return rc;
}

static int v_last_error(sqlite3_vfs *vfs, int n, char *out) {
    (void)vfs;
    if (gave_error) return atomic_load(&system_error);
    return real_vfs->xGetLastError(real_vfs, n, out);
}

void faultvfs_install(void) {
    if (real_vfs != NULL) return;
    sqlite3_initialize();
    real_vfs = sqlite3_vfs_find(NULL);
    fault_vfs = *real_vfs;
    fault_vfs.zName = "qpc-fault";
    fault_vfs.szOsFile = (int)sizeof(fault_file) + real_vfs->szOsFile;
    fault_vfs.xOpen = v_open;
    fault_vfs.xGetLastError = v_last_error;
    if (sqlite3_vfs_register(&fault_vfs, 1) != SQLITE_OK) abort();
}
