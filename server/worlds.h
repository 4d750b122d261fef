/// The table of live worlds: id to actor. Loop thread.
#ifndef QPC_SERVER_WORLDS_H
#define QPC_SERVER_WORLDS_H

#include "base/array.h"
#include "server/actor.h"

typedef struct qpc_worlds {
    QPC_ARRAY(qpc_actor *) actors; // sorted by id
    int64_t limit;
    int64_t creating; // places taken by jobs under way
} qpc_worlds;

void qpc_worlds_fini(qpc_worlds *worlds); // the actors are the caller's
/// A place for a world to come. QPC_ERR_LIMIT names the option.
qpc_status qpc_worlds_reserve(qpc_worlds *worlds, qpc_error *err);
/// Gives a reserved place back; with actor: fills it.
void qpc_worlds_settle(qpc_worlds *worlds, qpc_actor *actor);
qpc_status qpc_worlds_find(const qpc_worlds *worlds, uint64_t id, qpc_actor **ret,
                           qpc_error *err);
void qpc_worlds_remove(qpc_worlds *worlds, qpc_actor *actor);

#endif
