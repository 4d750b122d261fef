/// A VFS over SQLite's own that fails chosen operations, as full and dying disks do.
#ifndef QPC_TESTS_UNIT_STORAGE_FAULTVFS_H
#define QPC_TESTS_UNIT_STORAGE_FAULTVFS_H

#include <stdbool.h>

enum {
    FAULT_WRITE = 1,    // xWrite
    FAULT_SYNC = 2,     // xSync
    FAULT_TRUNCATE = 4, // xTruncate
    FAULT_OPEN = 8,     // xOpen
    FAULT_SHM = 16,     // xShmMap that would grow the -shm file
};

/// Register as the default VFS (once).
void faultvfs_install(void);
/// The nth operation from now of these kinds (1: the next) fails with code and errno, and so does
/// every one after it if sticky. nth 0 turns it off. Counts over all threads.
void faultvfs_arm(int kinds, long nth, int code, int system_error, bool sticky);
/// Every xSync from now takes at least ms longer, as on a slow disk; the count begins again.
void faultvfs_slow_sync(long ms);
/// xSync calls since faultvfs_slow_sync().
long faultvfs_syncs(void);
/// True if a failure has been given since faultvfs_arm().
bool faultvfs_fired(void);
/// Without shared memory SQLite has no WAL, as on odd file systems.
void faultvfs_without_shm(bool without);

#endif
