/// Counted allocation, fault injection and the step arena. Counters of a thread are its own.
#include "base/mem.h"

#include "base/status.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static _Thread_local uint64_t thread_allocations;
static _Thread_local uint64_t fail_countdown; // 0 = off
static _Thread_local bool fail_after, fail_seen;
static atomic_int_fast64_t live_blocks;

/// Count one allocation; false if it is the one that must fail.
static bool admit(void) {
    if (fail_countdown != 0) {
        if (fail_countdown == 1) {
            fail_seen = true;
            if (!fail_after) fail_countdown = 0;
            return false;
        }
        fail_countdown--;
    }
    return true;
}

static void *counted(void *p) {
    if (p != NULL) {
        thread_allocations++;
        atomic_fetch_add_explicit(&live_blocks, 1, memory_order_relaxed);
    }
    return p;
}

// The builtins write the wrapped result, so it goes through a local.
bool qpc_mul_size(size_t a, size_t b, size_t *ret) {
    size_t product;
    if (__builtin_mul_overflow(a, b, &product)) return false;
    *ret = product;
    return true;
}

bool qpc_add_size(size_t a, size_t b, size_t *ret) {
    size_t sum;
    if (__builtin_add_overflow(a, b, &sum)) return false;
    *ret = sum;
    return true;
}

void *qpc_alloc(size_t size) {
    if (!admit()) return NULL;
    return counted(malloc(size > 0 ? size : 1));
}

void *qpc_calloc(size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || !admit()) return NULL;
    return counted(calloc(1, bytes > 0 ? bytes : 1));
}

void *qpc_realloc(void *old, size_t size) {
    if (old == NULL) return qpc_alloc(size);
    if (!admit()) return NULL;
    void *p = realloc(old, size > 0 ? size : 1);
    if (p != NULL) thread_allocations++;
    return p;
}

void *qpc_alloc_array(size_t count, size_t size) {
    size_t bytes;
    return __builtin_mul_overflow(count, size, &bytes) ? NULL : qpc_alloc(bytes);
}

void *qpc_realloc_array(void *old, size_t count, size_t size) {
    size_t bytes;
    return __builtin_mul_overflow(count, size, &bytes) ? NULL : qpc_realloc(old, bytes);
}

char *qpc_strdup(const char *s) {
    size_t n = strlen(s) + 1;
    char *copy = qpc_alloc(n);
    if (copy != NULL) memcpy(copy, s, n);
    return copy;
}

void qpc_free(void *p) {
    if (p == NULL) return;
    atomic_fetch_sub_explicit(&live_blocks, 1, memory_order_relaxed);
    free(p);
}

uint64_t qpc_mem_thread_allocations(void) {
    return thread_allocations;
}

int64_t qpc_mem_live_blocks(void) {
    return atomic_load_explicit(&live_blocks, memory_order_relaxed);
}

void qpc_mem_fail_at(uint64_t nth, bool and_after) {
    fail_countdown = nth;
    fail_after = and_after;
    fail_seen = false;
}

void qpc_mem_disarm(void) {
    fail_countdown = 0;
}

bool qpc_mem_failed(void) {
    return fail_seen;
}

// ---- arena ----

enum { ARENA_ALIGN = 64, ARENA_FIRST = 64 * 1024 };

struct qpc_arena_block {
    qpc_arena_block *below;
    size_t size;         // payload bytes
    unsigned char *data; // aligned start of the payload, inside this allocation
};

static qpc_arena_block *block_create(size_t size, qpc_arena_block *below) {
    size_t bytes;
    if (!qpc_add_size(size, sizeof(qpc_arena_block) + ARENA_ALIGN, &bytes)) return NULL;
    qpc_arena_block *block = qpc_alloc(bytes);
    if (block == NULL) return NULL;
    uintptr_t start = (uintptr_t)(block + 1);
    block->data = (unsigned char *)((start + ARENA_ALIGN - 1) & ~(uintptr_t)(ARENA_ALIGN - 1));
    block->size = size;
    block->below = below;
    return block;
}

/// Free the newest block.
static void drop_head(qpc_arena *arena) {
    qpc_arena_block *below = arena->head->below;
    qpc_free(arena->head);
    arena->head = below;
}

void qpc_arena_fini(qpc_arena *arena) {
    if (arena == NULL) return;
    while (arena->head != NULL) drop_head(arena);
    memset(arena, 0, sizeof *arena);
}

void *qpc_arena_alloc(qpc_arena *arena, size_t size) {
    size_t rounded;
    if (!qpc_add_size(size, ARENA_ALIGN - 1, &rounded)) return NULL;
    rounded &= ~(size_t)(ARENA_ALIGN - 1);
    if (arena->head == NULL || arena->head->size - arena->used < rounded) {
        size_t held = arena->head != NULL ? arena->head->size : 0;
        size_t want = held > ARENA_FIRST / 2 ? 2 * held : ARENA_FIRST;
        qpc_arena_block *block = block_create(want > rounded ? want : rounded, arena->head);
        if (block == NULL) return NULL;
        arena->total += arena->used;
        arena->head = block;
        arena->used = 0;
    }
    void *p = arena->head->data + arena->used;
    arena->used += rounded;
    if (arena->total + arena->used > arena->high_water)
        arena->high_water = arena->total + arena->used;
    return p;
}

void *qpc_arena_array(qpc_arena *arena, size_t count, size_t size) {
    size_t bytes;
    return __builtin_mul_overflow(count, size, &bytes) ? NULL : qpc_arena_alloc(arena, bytes);
}

qpc_arena_mark qpc_arena_get_mark(const qpc_arena *arena) {
    return (qpc_arena_mark){arena->head, arena->used, arena->total};
}

void qpc_arena_rewind(qpc_arena *arena, qpc_arena_mark mark) {
    // Blocks newer than the mark go; a mark of the empty arena leaves the oldest block, so that
    // using the arena again does not allocate.
    while (arena->head != mark.block && arena->head->below != NULL) drop_head(arena);
    QPC_ASSERT(mark.block == NULL || arena->head == mark.block);
    arena->used = mark.block != NULL ? mark.used : 0;
    arena->total = mark.total;
}

void qpc_arena_reset(qpc_arena *arena) {
    // Compared with the high water, not with the number of blocks: a rewind may have freed the
    // blocks that the next step needs again.
    if (arena->head != NULL &&
        (arena->head->below != NULL || arena->head->size < arena->high_water)) {
        qpc_arena_block *joined = block_create(arena->high_water + arena->high_water / 4, NULL);
        if (joined == NULL) {
            // The newest block is the largest as a rule: keep it, free the ones below.
            while (arena->head->below != NULL) {
                qpc_arena_block *older = arena->head->below;
                arena->head->below = older->below;
                qpc_free(older);
            }
        } else {
            while (arena->head != NULL) drop_head(arena);
            arena->head = joined;
        }
    }
    arena->used = 0;
    arena->total = 0;
}
