/// Memory: counted allocation that can be made to fail, checked sizes, and the step arena.
///
/// All rooms allocate through here, so that a test can fail the Nth allocation and count what a
/// step takes. Any thread. Zero-size requests give a valid pointer that qpc_free accepts.
#ifndef QPC_BASE_MEM_H
#define QPC_BASE_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void *qpc_alloc(size_t size);
void *qpc_calloc(size_t count, size_t size); // NULL on overflow too
void *qpc_realloc(void *old, size_t size);   // old stays valid on failure
void *qpc_alloc_array(size_t count, size_t size);
void *qpc_realloc_array(void *old, size_t count, size_t size);
char *qpc_strdup(const char *s);
void qpc_free(void *p);

/// False on overflow, *ret untouched.
bool qpc_mul_size(size_t a, size_t b, size_t *ret);
bool qpc_add_size(size_t a, size_t b, size_t *ret);

/// Successful allocations made by the calling thread since it started (reallocations count one).
uint64_t qpc_mem_thread_allocations(void);
/// Blocks alive in the whole process: 0 means that nothing leaked through this room.
int64_t qpc_mem_live_blocks(void);
/// Fault injection, calling thread only: the nth allocation from now (1 = the next) returns NULL,
/// and so does every one after it if `and_after`. 0 turns it off.
void qpc_mem_fail_at(uint64_t nth, bool and_after);
/// Turn it off, but keep what qpc_mem_failed() says.
void qpc_mem_disarm(void);
/// True if a failure has been injected since qpc_mem_fail_at().
bool qpc_mem_failed(void);

/// Step arena: bump allocation, 64-byte aligned, freed as a whole. Grows by blocks inside a step
/// and joins them into one block at the next reset, so that after warm-up nothing is allocated.
typedef struct qpc_arena_block qpc_arena_block;
typedef struct qpc_arena {
    qpc_arena_block *head; // newest block
    size_t used;           // in head
    size_t total;          // in the blocks below head
    size_t high_water;     // most bytes ever in use between two resets
} qpc_arena;
typedef struct qpc_arena_mark {
    qpc_arena_block *block;
    size_t used, total;
} qpc_arena_mark;

/// Zero-initialise an arena; fini frees all and zeroes it.
void qpc_arena_fini(qpc_arena *arena);
/// NULL when memory is out. Contents are not cleared.
void *qpc_arena_alloc(qpc_arena *arena, size_t size);
void *qpc_arena_array(qpc_arena *arena, size_t count, size_t size); // NULL on overflow too
qpc_arena_mark qpc_arena_get_mark(const qpc_arena *arena);
/// Give back everything allocated since the mark (which no reset may have followed).
void qpc_arena_rewind(qpc_arena *arena, qpc_arena_mark mark);
/// Empty the arena; if it is less than one block of the high-water size, replace what it has by
/// one (if that cannot be had, the newest block stays and the next reset tries again).
void qpc_arena_reset(qpc_arena *arena);

#endif
