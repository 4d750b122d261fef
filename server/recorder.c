/// Records of one world to its run file. See recorder.h.
///
/// Every call here runs on the worker in the world. Records are copies, handed to the storage queue;
/// when that is full the scene's policy decides: wait for the disk, or drop and count.
#include "server/recorder.h"

#include "base/hash.h"
#include "base/json.h"
#include "base/mem.h"
#include "server/builder.h"
#include "server/recordlist.h"

#include <stdio.h>
#include <string.h>
#include <uv.h>

struct qpc_recorder {
    _Atomic int32_t refs;
    qpc_run_handle *run;
    const qpc_layout *layout; // borrowed from the world's actor, which outlives the recorder
    qpc_record_settings settings;
    char id[33];
    double *gathered; // (moving nodes x 3), when they are not one piece of the engine's array
    qpc_packed packed; // a list
    int64_t substep_step; // number the states travelled through inside this step
    int32_t substep_count;
    int64_t failsafe_event, proof_event, conflict_event, friction_event, still_event; // last step with such an event
    char trouble[200];
};

// ---- settings ----

static qpc_status read_flag(const qpc_value *record, const char *key, const char *where,
                            bool *ret, qpc_error *err) {
    const qpc_value *v = qpc_map_get(record, key);
    return v == NULL ? QPC_OK : qpc_read_bool(v, where, ret, err);
}

qpc_status qpc_record_settings_read(const qpc_value *record, qpc_record_settings *ret,
                                    qpc_error *err) {
    qpc_record_settings s = {
        .enabled = true,
        .contacts = true,
        .reactions = true,
        .diagnostics = true,
        .wait = true,
        .single = true,
        .every = 1,
    };
    qpc_status status = QPC_OK;
    if (record != NULL && record->kind != QPC_NIL) {
        const qpc_value *v = qpc_map_get(record, "frames");
        if (v != NULL) status = qpc_read_int(v, "record.frames", 0, INT32_MAX, &s.every, err);
        v = qpc_map_get(record, "precision");
        if (status == QPC_OK && v != NULL) {
            status = qpc_single_from_value(v, "record.precision", &s.single, err);
        }
        v = qpc_map_get(record, "full");
        if (status == QPC_OK && v != NULL) {
            s.wait = qpc_str_equal(v, "wait");
            if (!s.wait && !qpc_str_equal(v, "drop")) {
                status = qpc_fail_at(err, QPC_ERR_INVALID, "record.full",
                                     "want \"wait\" or \"drop\"");
            }
        }
        if (status == QPC_OK) {
            status = read_flag(record, "enabled", "record.enabled", &s.enabled, err);
        }
        if (status == QPC_OK) {
            status = read_flag(record, "contacts", "record.contacts", &s.contacts, err);
        }
        if (status == QPC_OK) {
            status = read_flag(record, "reactions", "record.reactions", &s.reactions, err);
        }
        if (status == QPC_OK) {
            status = read_flag(record, "substeps", "record.substeps", &s.substeps, err);
        }
        if (status == QPC_OK) {
            status = read_flag(record, "diagnostics", "record.diagnostics", &s.diagnostics, err);
        }
    }
    if (status == QPC_OK) *ret = s;
    return status;
}

// ---- pushing ----

static void push(qpc_recorder *recorder, qpc_status made, qpc_record *record) {
    qpc_error error = {0};
    qpc_status status = made;
    if (status == QPC_OK) {
        status = qpc_writer_push(recorder->run, record, recorder->settings.wait, &error);
    } else {
        qpc_fail(&error, status, "out of memory for a record");
    }
    if (status == QPC_OK) recorder->trouble[0] = '\0';
    // Dropping by policy is what was asked for; it is counted, not reported as a failure.
    if (status == QPC_OK || status == QPC_ERR_BUSY) return;
    snprintf(recorder->trouble, sizeof recorder->trouble, "failed: %.180s", error.message);
}

static const double *moving_nodes(qpc_recorder *recorder, const double *all) {
    const qpc_layout *layout = recorder->layout;
    if (layout->contiguous) return all + 3 * (size_t)layout->engine_first;
    qpc_layout_gather(layout, all, recorder->gathered);
    return recorder->gathered;
}

static void push_frame(qpc_recorder *recorder, int64_t step, int32_t substep, double time,
                       uint64_t hash, const double *all) {
    qpc_record *record = NULL;
    qpc_status status = qpc_record_frame(
        step, substep, time, hash, moving_nodes(recorder, all), recorder->layout->node_count,
        recorder->settings.single ? QPC_F32 : QPC_F64, &record, NULL);
    push(recorder, status, record);
}

/// One list of the step that is over; nothing if it is empty.
static void push_list(qpc_recorder *recorder, const qpc_world *world, qpc_run_list list) {
    int32_t count = 0;
    qpc_record *record = NULL;
    qpc_status status = qpc_recordlist_pack(list, world, &recorder->packed, &count);
    if (status == QPC_OK && count == 0) return;
    if (status == QPC_OK)
        status = qpc_record_list(list, qpc_world_step_number(world), recorder->packed.data, count,
                                 qpc_recordlist_size(list), &record, NULL);
    push(recorder, status, record);
}

// ---- life ----

/// Versions of what made the run, as JSON text.
static qpc_status versions_json(char **ret, qpc_error *err) {
    qpc_value map = qpc_map(), made = qpc_nil();
    qpc_status status = QPC_OK;
    uv_cpu_info_t *cpus = NULL;
    int cpu_count = 0;
    uv_utsname_t system;
    qpc_put(&map, &status, "qpcollided", qpc_text_borrow(QPC_VERSION));
    qpc_put(&map, &status, "compiler", qpc_text_borrow(__VERSION__));
    qpc_put_text(&map, &status, "libuv", uv_version_string());
    if (uv_os_uname(&system) == 0) {
        qpc_put_text(&map, &status, "system", system.sysname);
        qpc_put_text(&map, &status, "machine", system.machine);
    }
    if (uv_cpu_info(&cpus, &cpu_count) == 0) {
        if (cpu_count > 0) qpc_put_text(&map, &status, "cpu", cpus[0].model);
        uv_free_cpu_info(cpus, cpu_count);
    }
    status = qpc_finish(&map, status, &made, err);
    if (status == QPC_OK) status = qpc_json_write(&made, 0, true, ret, err);
    qpc_value_fini(&made);
    return status;
}

typedef struct run_parts { // arrays that a run's definition points into
    qpc_run_column columns[QPC_STEP_FIELD_COUNT];
    qpc_run_body *bodies;
    qpc_run_mesh *meshes;
    uint8_t **mesh_bytes;
    int32_t mesh_count;
    char *scene, *versions;
} run_parts;

static void free_parts(run_parts *parts) {
    for (int32_t i = 0; i < parts->mesh_count; i++) qpc_free(parts->mesh_bytes[i]);
    qpc_free(parts->mesh_bytes);
    qpc_free(parts->meshes);
    qpc_free(parts->bodies);
    qpc_free(parts->scene);
    qpc_free(parts->versions);
}

/// The bytes of every mesh once.
static qpc_status collect_mesh(const qpc_mesh *mesh, run_parts *parts, qpc_error *err) {
    if (mesh == NULL) return QPC_OK;
    for (int32_t k = 0; k < parts->mesh_count; k++)
        if (memcmp(parts->meshes[k].sha256, qpc_mesh_sha256(mesh), 32) == 0) return QPC_OK;
    size_t size = qpc_mesh_canonical_size(mesh);
    uint8_t *bytes = qpc_alloc(size);
    if (bytes == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "out of memory for a mesh of %zu bytes", size);
    qpc_mesh_canonical_bytes(mesh, bytes);
    parts->mesh_bytes[parts->mesh_count] = bytes;
    parts->meshes[parts->mesh_count++] = (qpc_run_mesh){qpc_mesh_sha256(mesh), bytes, size};
    return QPC_OK;
}

/// Surfaces, and the tetrahedra that the scene names.
static qpc_status collect_meshes(const qpc_world *world, int32_t bodies, run_parts *parts,
                                 qpc_error *err) {
    for (int32_t i = 0; i < bodies; i++) {
        qpc_body_info info = qpc_world_body(world, i);
        qpc_status status = collect_mesh(info.mesh, parts, err);
        if (status == QPC_OK) status = collect_mesh(info.tets, parts, err);
        if (status != QPC_OK) return status;
    }
    return QPC_OK;
}

static qpc_status collect_parts(const qpc_world *world, const qpc_layout *layout,
                                run_parts *parts, qpc_error *err) {
    size_t bodies = (size_t)layout->body_count;
    for (int32_t i = 0; i < QPC_STEP_FIELD_COUNT; i++) {
        parts->columns[i] =
            (qpc_run_column){qpc_step_field_name(i), qpc_step_field_is_integer(i)};
    }
    parts->bodies = qpc_calloc(bodies, sizeof *parts->bodies);
    parts->meshes = qpc_calloc(2 * bodies, sizeof *parts->meshes);
    parts->mesh_bytes = qpc_calloc(2 * bodies, sizeof *parts->mesh_bytes);
    if (parts->bodies == NULL || parts->meshes == NULL || parts->mesh_bytes == NULL) {
        return qpc_fail(err, QPC_ERR_MEMORY, "out of memory for a run of %zu bodies", bodies);
    }
    for (size_t i = 0; i < bodies; i++) {
        const qpc_layout_body *body = &layout->bodies[i];
        parts->bodies[i] = (qpc_run_body){
            .name = body->name,
            .kind = body->kind,
            .first_node = body->first_node,
            .node_count = body->node_count,
            .element_count = body->element_count,
            .nodes_per_element = body->nodes_per_element,
            .radius = body->radius,
            .mesh_sha256 = body->has_mesh ? body->mesh_sha256 : NULL,
        };
    }
    qpc_status status = collect_meshes(world, layout->body_count, parts, err);
    if (status == QPC_OK) {
        status = qpc_json_write(qpc_world_scene(world), 0, true, &parts->scene, err);
    }
    if (status == QPC_OK) status = versions_json(&parts->versions, err);
    return status;
}

qpc_status qpc_recorder_open(qpc_writer *writer, const qpc_world *world,
                             const qpc_layout *layout, const qpc_record_settings *settings,
                             uint64_t world_id, const char *name, qpc_recorder **ret,
                             qpc_error *err) {
    qpc_recorder *recorder = qpc_calloc(1, sizeof *recorder);
    run_parts *parts = qpc_calloc(1, sizeof *parts);
    qpc_status status = QPC_OK;
    uint8_t random[16];
    if (recorder == NULL || parts == NULL) {
        status = qpc_fail(err, QPC_ERR_MEMORY, "out of memory for a run");
        goto done;
    }
    atomic_init(&recorder->refs, 1);
    recorder->layout = layout;
    recorder->settings = *settings;
    recorder->failsafe_event = recorder->proof_event = INT64_MIN / 2;
    recorder->conflict_event = recorder->friction_event = recorder->still_event = INT64_MIN / 2;
    recorder->substep_step = -1;
    if (!layout->contiguous) {
        recorder->gathered = qpc_alloc_array((size_t)layout->node_count, 3 * sizeof(double));
        if (recorder->gathered == NULL) {
            status = qpc_fail(err, QPC_ERR_MEMORY, "out of memory for %d nodes", layout->node_count);
            goto done;
        }
    }
    status = qpc_random_bytes(random, sizeof random, err);
    if (status != QPC_OK) goto done;
    qpc_hex_encode(random, sizeof random, recorder->id);
    status = collect_parts(world, layout, parts, err);
    if (status != QPC_OK) goto done;
    qpc_run_def def = {
        .world = world_id,
        .name = name,
        .scene_json = parts->scene,
        .scene_hash = qpc_world_scene_hash(world),
        .start_hash = qpc_world_hash(world),
        .dt = qpc_world_dt(world),
        .frame_dtype = settings->single ? QPC_F32 : QPC_F64,
        .frame_nodes = layout->node_count,
        .columns = parts->columns,
        .column_count = QPC_STEP_FIELD_COUNT,
        .bodies = parts->bodies,
        .body_count = layout->body_count,
        .meshes = parts->meshes,
        .mesh_count = parts->mesh_count,
        .versions_json = parts->versions,
    };
    memcpy(def.id, recorder->id, sizeof def.id);
    status = qpc_writer_open_run(writer, &def, &recorder->run, err);
    if (status != QPC_OK) goto done;
    if (settings->every > 0) {
        push_frame(recorder, qpc_world_step_number(world), -1, qpc_world_time(world),
                   qpc_world_hash(world), qpc_world_positions(world));
    }
    *ret = recorder;
done:
    if (parts != NULL) free_parts(parts);
    qpc_free(parts);
    if (status != QPC_OK) qpc_recorder_unref(recorder);
    return status;
}

qpc_recorder *qpc_recorder_ref(qpc_recorder *recorder) {
    atomic_fetch_add(&recorder->refs, 1);
    return recorder;
}

qpc_status qpc_recorder_flush(qpc_recorder *recorder, qpc_error *err) {
    qpc_status status = qpc_writer_flush(recorder->run, err);
    if (status != QPC_OK) return status;
    uint64_t dropped = qpc_run_handle_dropped(recorder->run);
    if (dropped == 0) return QPC_OK;
    return qpc_fail(err, QPC_ERR_FULL, "%llu records could not be written", (unsigned long long)dropped);
}

static void release(qpc_recorder *recorder, bool wait) {
    if (recorder == NULL || atomic_fetch_sub(&recorder->refs, 1) > 1) return;
    if (wait && recorder->run != NULL) qpc_writer_close_run_and_wait(recorder->run);
    else if (recorder->run != NULL) qpc_writer_close_run(recorder->run);
    qpc_free(recorder->gathered);
    qpc_packed_fini(&recorder->packed);
    qpc_free(recorder);
}

void qpc_recorder_unref(qpc_recorder *recorder) { release(recorder, false); }

void qpc_recorder_unref_and_wait(qpc_recorder *recorder) { release(recorder, true); }

const char *qpc_recorder_run(const qpc_recorder *recorder) { return recorder->id; }

const qpc_record_settings *qpc_recorder_settings(const qpc_recorder *recorder) {
    return &recorder->settings;
}

// ---- during the run ----

/// The names of every such step, an event for the first of a series.
static void push_conflicts(qpc_recorder *recorder, const qpc_world *world) {
    int64_t step = qpc_world_step_number(world);
    char text[400];
    push_list(recorder, world, QPC_LIST_CONFLICTS);
    if (step <= recorder->conflict_event + 100) return;
    recorder->conflict_event = step;
    qpc_recordlist_conflict_text(world, text, sizeof text);
    qpc_recorder_event(recorder, step, "conflict", text);
}

void qpc_recorder_step(qpc_recorder *recorder, const qpc_world *world,
                       const qpc_step_report *report) {
    const qpc_record_settings *s = &recorder->settings;
    int64_t step = qpc_world_step_number(world);
    if (s->diagnostics) {
        qpc_record *record = NULL;
        qpc_status status = qpc_record_step(step, report, QPC_STEP_FIELD_COUNT, &record, NULL);
        push(recorder, status, record);
    }
    if (s->every > 0 && step % s->every == 0) {
        push_frame(recorder, step, -1, qpc_world_time(world), qpc_world_hash(world),
                   qpc_world_positions(world));
    }
    if (s->contacts) push_list(recorder, world, QPC_LIST_CONTACTS);
    if (s->reactions) {
        push_list(recorder, world, QPC_LIST_REACTIONS);
        push_list(recorder, world, QPC_LIST_LIMIT_FORCES);
        push_list(recorder, world, QPC_LIST_JOINTS);
    }
    if (report->conflicts > 0) push_conflicts(recorder, world);
    if (report->friction_missed != 0 && step > recorder->friction_event + 100) {
        recorder->friction_event = step;
        qpc_recorder_event(recorder, step, "friction_missed",
                           "a friction problem was not solved to its tolerance");
    }
    char still[400];
    if (qpc_recordlist_still_text(world, still, sizeof still)) {
        if (step > recorder->still_event + 100) {
            qpc_recorder_event(recorder, step, "standstill", still);
            recorder->still_event = step;
        }
    } else if (report->failsafe > 0 && step > recorder->failsafe_event + 100) {
        // Every one is in its row; the event points a reader to the first of a series.
        recorder->failsafe_event = step;
        qpc_recorder_event(recorder, step, "failsafe", "motion was cut short before an impact");
    }
    if (report->proven != 1 && step > recorder->proof_event + 100) {
        recorder->proof_event = step;
        qpc_recorder_event(recorder, step, "not_proven",
                           "no continuous test found the motion that was taken over free of contact");
    }
}

void qpc_recorder_substep(qpc_recorder *recorder, int64_t step, double time, const double *x) {
    if (recorder->substep_step != step) {
        recorder->substep_step = step;
        recorder->substep_count = 0;
    }
    push_frame(recorder, step, recorder->substep_count++, time, 0, x);
}

void qpc_recorder_command(qpc_recorder *recorder, int64_t step, const char *method,
                          const qpc_value *params) {
    char *json = NULL;
    qpc_record *record = NULL;
    qpc_status status = qpc_json_write(params, 0, false, &json, NULL);
    if (status == QPC_OK) status = qpc_record_command(step, method, json, &record, NULL);
    push(recorder, status, record);
    qpc_free(json);
}

void qpc_recorder_event(qpc_recorder *recorder, int64_t step, const char *kind,
                        const char *message) {
    qpc_record *record = NULL;
    qpc_status status = qpc_record_event(step, kind, message, &record, NULL);
    push(recorder, status, record);
}

const char *qpc_recorder_trouble(const qpc_recorder *recorder) { return recorder->trouble; }

uint64_t qpc_recorder_dropped(const qpc_recorder *recorder) {
    return qpc_run_handle_dropped(recorder->run);
}
