/// What of a world goes into its run file: the row of every step, frames, lists (recordlist.h), the command
/// log and events. Used by the worker in the world, one at a time; a reader of the run may hold a reference.
///
/// A failing disk never stops a world: the run turns to `failed`, its records are dropped and
/// counted, and the reason stands in the reply of world.step until storage has recovered.
#ifndef QPC_SERVER_RECORDER_H
#define QPC_SERVER_RECORDER_H

#include "server/snapshot.h"
#include "storage/writer.h"

typedef struct qpc_recorder qpc_recorder;

typedef struct qpc_record_settings { // scene key `record`
    bool enabled, contacts, reactions, substeps, diagnostics, wait;
    bool single;   // precision float32
    int64_t every; // frames every so many steps; 0: none
} qpc_record_settings;

/// Reads the map `record` of a scene; NULL gives the defaults.
qpc_status qpc_record_settings_read(const qpc_value *record, qpc_record_settings *ret,
                                    qpc_error *err);

/// Creates the run file of a new world and records its initial state as frame 0.
qpc_status qpc_recorder_open(qpc_writer *writer, const qpc_world *world,
                             const qpc_layout *layout, const qpc_record_settings *settings,
                             uint64_t world_id, const char *name, qpc_recorder **ret,
                             qpc_error *err);
/// The last reference ends the run (state `closed`). NULL is accepted.
qpc_recorder *qpc_recorder_ref(qpc_recorder *recorder);
void qpc_recorder_unref(qpc_recorder *recorder);
/// The same, and if it was the last reference returns when the run is closed. Not on the loop.
void qpc_recorder_unref_and_wait(qpc_recorder *recorder);
/// Any thread that holds a reference: wait until what was recorded so far can be read. An error says
/// why it cannot (a full disk, say); what is there can be read all the same.
qpc_status qpc_recorder_flush(qpc_recorder *recorder, qpc_error *err);
/// 32 hex digits.
const char *qpc_recorder_run(const qpc_recorder *recorder);
const qpc_record_settings *qpc_recorder_settings(const qpc_recorder *recorder);

/// After a step: its row and, as the settings say, its frame and lists.
void qpc_recorder_step(qpc_recorder *recorder, const qpc_world *world,
                       const qpc_step_report *report);
/// A state inside the coming step; x (all nodes x 3).
void qpc_recorder_substep(qpc_recorder *recorder, int64_t step, double time, const double *x);
void qpc_recorder_command(qpc_recorder *recorder, int64_t step, const char *method,
                          const qpc_value *params);
void qpc_recorder_event(qpc_recorder *recorder, int64_t step, const char *kind,
                        const char *message);
/// "" while all is well, else why records are being dropped.
const char *qpc_recorder_trouble(const qpc_recorder *recorder);
uint64_t qpc_recorder_dropped(const qpc_recorder *recorder);

#endif
