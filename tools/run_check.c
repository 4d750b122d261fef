// qpc-run-check: re-check a recorded run with the independent checker.
//
//     qpc-run-check [--from STEP] [--to STEP] RUN.qpc...
//
// Reads the frames of a run file, sub-steps included, and asks of every motion between two of them
// whether anything touched, of every state whether anything intersects, and how close things came. It
// uses the scene and the meshes that the run file holds and no code of the engine. Bodies that were removed on the way (events) are
// left out from then on. Frames should be
// recorded in float64 with `record.substeps` on: single precision moves nodes by rounding, and a
// halved step without its middle states hides the path that was travelled.
// Exit status: 0 nothing was found, 1 the promise is broken, 2 usage or a file that does not read,
// 3 nothing was found, but parts of the path are not in the file or the run itself says that a step was not
// proven. See docs/checking.md.
#include "base/hash.h"
#include "base/json.h"
#include "base/mem.h"
#include "storage/reader.h"
#include "tests/support/check_scene.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXIT_CLEAN = 0, EXIT_BROKEN = 1, EXIT_ERROR = 2, EXIT_INCOMPLETE = 3 };

typedef struct job {
    qpc_reader *reader;
    uint8_t *mesh[256]; // canonical bytes, alive while the scene is made
    int32_t mesh_count;
    qpc_check_scene check;
    qpc_check_report found;
    int64_t last_step, gaps, frames, substeps, unseen_halvings;
    const int64_t *halvings; // by step from first_halving, or NULL
    int64_t halvings_from, halvings_count;
    int32_t substeps_of_step;
    bool wrong_nodes;
    int64_t proven, not_proven; // steps by the run's own account
    bool proof_said;            // the file has the column
    const qpc_run_body *bodies;
    int64_t *removed;           // (body_count) the step after which a body is not there, INT64_MAX: none
    int32_t body_count;
} job;

static uint64_t little(const uint8_t *p, int size) {
    uint64_t v = 0;
    for (int i = size - 1; i >= 0; i--) v = v << 8 | p[i];
    return v;
}
// Vertices and triangles inside the canonical bytes: "QPM1", counts, then the arrays.
static bool lookup(void *user, const char sha256[65], qpc_check_mesh *ret) {
    job *j = user;
    uint8_t hash[32], *bytes;
    size_t size;
    if (j->mesh_count == (int32_t)(sizeof j->mesh / sizeof j->mesh[0])) return false;
    if (!qpc_hex_decode(sha256, 64, hash, sizeof hash)) return false;
    if (qpc_reader_mesh(j->reader, hash, &bytes, &size, NULL) != QPC_OK) return false;
    enum { HEAD = 24 };
    uint64_t per = size >= HEAD ? little(bytes + 4, 4) : 0;
    bool known = per == 3 || per == 4;
    uint64_t vertices = known ? little(bytes + 8, 8) : 0;
    uint64_t triangles = known ? little(bytes + 16, 8) : 0;
    bool fits = known && vertices <= INT32_MAX && triangles <= INT32_MAX / 16 &&
                HEAD + 24 * vertices + 4 * per * triangles == size;
    uint8_t *copy = fits ? malloc(size) : NULL; // aligned: 8 bytes of head left out
    if (copy != NULL) {
        memcpy(copy, bytes + HEAD, size - HEAD);
        j->mesh[j->mesh_count++] = copy;
        *ret = (qpc_check_mesh){.vertices = (const double *)(const void *)copy,
                                .triangles = (const int32_t *)(const void *)(copy + 24 * vertices),
                                .vertex_count = (int32_t)vertices,
                                .triangle_count = (int32_t)triangles,
                                .per = (int32_t)per};
    }
    qpc_free(bytes);
    return copy != NULL;
}

static bool visit_event(void *user, int64_t step, const char *kind, const char *subject, const char *text) {
    (void)subject;
    job *j = user;
    for (int32_t i = 0; i < j->body_count && strcmp(kind, "removed") == 0; i++)
        if (strcmp(j->bodies[i].name, text) == 0 && step < j->removed[i]) j->removed[i] = step;
    return true;
}
static void leave_out_removed(job *j, int64_t step) {
    for (int32_t i = 0; i < j->body_count; i++)
        if (j->removed[i] < step) {
            qpc_check_scene_remove(&j->check, i);
            j->removed[i] = INT64_MAX;
        }
}

static bool visit(void *user, int64_t step, int32_t substep, double time, uint64_t hash,
                  const double *positions, int32_t nodes) {
    (void)time, (void)hash;
    job *j = user;
    if (nodes != j->check.frame_nodes) {
        j->wrong_nodes = true;
        return false;
    }
    leave_out_removed(j, step);
    bool end = substep < 0;
    bool first_of_step = step != j->last_step;
    if (first_of_step) j->substeps_of_step = 0;
    if (!end) j->substeps_of_step++;
    if (step > j->last_step + 1) j->gaps++;
    if (!j->check.started && step == 1) // the start is in the scene: no frame holds it
        (void)qpc_check_scene_next(&j->check, j->check.x0, &j->found);
    (void)qpc_check_scene_next(&j->check, positions, &j->found);
    int64_t row = step - j->halvings_from;
    if (end && j->halvings != NULL && row >= 0 && row < j->halvings_count &&
        j->halvings[row] > 0 && j->substeps_of_step == 0)
        j->unseen_halvings++;
    if (end) j->frames++;
    else j->substeps++;
    j->last_step = step;
    return true;
}

static void fini(job *j) {
    qpc_check_scene_fini(&j->check);
    for (int32_t i = 0; i < j->mesh_count; i++) free(j->mesh[i]);
    free(j->removed);
    qpc_reader_close(j->reader);
}
static int check_run(const char *path, int64_t from, int64_t to) {
    job j = {.last_step = 0};
    qpc_error err = {0};
    qpc_check_report_init(&j.found);
    qpc_value scene = qpc_nil();
    const qpc_run_body *bodies;
    int32_t body_count = 0, *first = NULL;
    void *halvings = NULL;
    int status = EXIT_ERROR;
    if (qpc_reader_open(path, &j.reader, &err) != QPC_OK) goto done;
    qpc_run_facts facts = qpc_reader_facts(j.reader);
    if (facts.frame_count == 0) {
        (void)qpc_fail(&err, QPC_ERR_NOT_FOUND, "no frames are recorded");
        goto done;
    }
    if (qpc_json_parse(facts.scene_json, strlen(facts.scene_json), &scene, &err) != QPC_OK) goto done;
    if (qpc_reader_bodies(j.reader, &bodies, &body_count) != QPC_OK) goto done;
    first = malloc(((size_t)body_count + 1) * sizeof *first);
    if (first == NULL) goto done;
    for (int32_t i = 0; i < body_count; i++)
        first[i] = bodies[i].node_count > 0 ? bodies[i].first_node : -1;
    if (qpc_check_scene_create(&scene, first, facts.frame_nodes, NULL, lookup, &j, &j.check, &err) !=
        QPC_OK)
        goto done;
    j.bodies = bodies;
    j.body_count = body_count;
    j.removed = malloc(((size_t)body_count + 1) * sizeof *j.removed);
    if (j.removed == NULL) goto done;
    for (int32_t i = 0; i < body_count; i++) j.removed[i] = INT64_MAX;
    if (qpc_reader_events(j.reader, 0, INT64_MAX, visit_event, &j, &err) != QPC_OK) goto done;
    static const char *const column[] = {"halvings"};
    j.halvings_from = 1;
    if (qpc_reader_steps(j.reader, 1, INT64_MAX, INT64_MAX, column, 1, &halvings,
                         &j.halvings_count, NULL) == QPC_OK)
        j.halvings = halvings; // a run without diagnostics has none
    j.proof_said = qpc_reader_count(j.reader, "proven", 1, &j.proven, NULL) == QPC_OK &&
                   qpc_reader_count(j.reader, "proven", 0, &j.not_proven, NULL) == QPC_OK;
    j.last_step = from > 0 ? from - 1 : 0;
    if (qpc_reader_frames(j.reader, from, to, INT64_MAX, true, visit, &j, &err) != QPC_OK) goto done;
    if (j.wrong_nodes) {
        (void)qpc_fail(&err, QPC_ERR_CORRUPT, "a frame has another number of nodes than the run");
        goto done;
    }
    qpc_check_report_print(path, &j.found);
    printf("  %" PRId64 " frames and %" PRId64 " sub-steps in %s\n", j.frames, j.substeps,
           facts.frame_dtype == QPC_F64 ? "float64" : "float32 (rounded: what is checked is not "
                                                      "quite what was travelled)");
    bool broken = j.found.crossings + j.found.intersections + j.found.undecided > 0;
    bool incomplete = j.gaps + j.unseen_halvings + j.not_proven > 0;
    if (!j.proof_said)
        printf("  the file does not say which steps were proven when they were made\n");
    else
        printf("  %" PRId64 " steps were proven when they were made, %" PRId64 " were not\n", j.proven,
               j.not_proven);
    if (j.gaps > 0)
        printf("  %" PRId64 " gaps between frames: steps in between are not in the file\n", j.gaps);
    if (j.unseen_halvings > 0)
        printf("  %" PRId64 " steps were halved and their middle states are not in the file\n",
               j.unseen_halvings);
    status = broken ? EXIT_BROKEN : incomplete ? EXIT_INCOMPLETE : EXIT_CLEAN;
done:
    if (status == EXIT_ERROR) fprintf(stderr, "%s: %s\n", path, err.message);
    fini(&j);
    qpc_free(halvings);
    free(first);
    qpc_value_fini(&scene);
    return status;
}

static int usage(FILE *out, int status) {
    fprintf(out, "usage: qpc-run-check [--from STEP] [--to STEP] RUN.qpc...\n"
                 "Re-checks recorded runs: crossings, intersections, least distances.\n"
                 "Exit status: 0 clean, 1 broken, 2 usage or unreadable, 3 clean but incomplete or not proven.\n");
    return status;
}
int main(int argc, char **argv) {
    int64_t from = 0, to = INT64_MAX;
    int i = 1, worst = EXIT_CLEAN;
    for (; i < argc && argv[i][0] == '-'; i++) {
        if (strcmp(argv[i], "--help") == 0) return usage(stdout, EXIT_CLEAN);
        bool is_from = strcmp(argv[i], "--from") == 0;
        if ((!is_from && strcmp(argv[i], "--to") != 0) || i + 1 >= argc)
            return usage(stderr, EXIT_ERROR);
        char *end;
        int64_t step = strtoll(argv[++i], &end, 10);
        if (*end != 0 || end == argv[i] || step < 0) return usage(stderr, EXIT_ERROR);
        *(is_from ? &from : &to) = step;
    }
    if (i == argc) return usage(stderr, EXIT_ERROR);
    // a broken promise is worse than a file that does not read, and that than a gap
    static const int rank[] = {[EXIT_CLEAN] = 0, [EXIT_INCOMPLETE] = 1, [EXIT_ERROR] = 2,
                               [EXIT_BROKEN] = 3};
    for (; i < argc; i++) {
        int status = check_run(argv[i], from, to);
        if (rank[status] > rank[worst]) worst = status;
    }
    return worst;
}
