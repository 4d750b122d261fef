/// What the last proximity call found between surfaces that keep their form, and what may be taken from it; see sheets.h.
///
/// A pair of surfaces that both are where they were, to the bit, has the contacts that it had: they are a function of its
/// positions and the reach. The smallest gap needs no list of its own: a distance changes by no more than its nodes move (the
/// triangle inequality), so that pairs that were tested bound it from below, and all others were proven to be out of reach.
#include "engine/collision/sheets.h"

#include "base/mem.h"

#include <float.h>

static const double PAD = 1e-9;   // of the separation, and
static const double ULPS = 64;    // of the largest coordinate: what distances are off by rounding, at most
static const double TOUCH = 1e-3; // separations: nearer than this the motion test has a word to say where nothing moves

static qpc_status no_memory(qpc_error *err) { return qpc_fail(err, QPC_ERR_MEMORY, "out of memory for contacts"); }

static double extent_of(const qpc_mesh_part *m, const double *x) {
    double most = 0;
    for (int64_t k = 3 * (int64_t)m->first_node; k < 3 * ((int64_t)m->first_node + m->node_count); k++) most = fabs(x[k]) > most ? fabs(x[k]) : most;
    return most;
}

/// The least sum of the radii of a rigid surface and another.
static double least_separation(const qpc_detector *det) {
    double least = HUGE_VAL;
    for (int32_t i = 0; i < det->mesh_count; i++)
        for (int32_t j = 0; j < det->mesh_count && det->meshes[i].rigid; j++)
            if (i != j) least = fmin(least, det->meshes[i].radius + det->meshes[j].radius);
    return least;
}

qpc_status qpc_kept_init(qpc_kept *kept, const qpc_detector *det, const double *x, qpc_error *err) {
    int32_t surfaces = 0;
    bool rigid = false;
    for (int32_t i = 0; i < det->mesh_count; i++) {
        const qpc_mesh_part *m = &det->meshes[i];
        rigid |= m->rigid;
        surfaces = m->surface >= surfaces ? m->surface + 1 : surfaces;
        kept->deforming |= !det->solid[m->surface];
        if (!m->moving) kept->extent = fmax(kept->extent, extent_of(m, x));
    }
    if (!rigid) return QPC_OK;
    kept->x = qpc_alloc_array(3 * (size_t)det->node_count, sizeof *kept->x);
    kept->solid = qpc_calloc((size_t)det->mesh_count, 1);
    kept->still = qpc_calloc((size_t)det->mesh_count, 1);
    kept->moved = qpc_calloc((size_t)det->mesh_count, sizeof *kept->moved);
    kept->mesh_of = qpc_calloc((size_t)surfaces, sizeof *kept->mesh_of);
    if (kept->x == NULL || kept->solid == NULL || kept->still == NULL || kept->moved == NULL || kept->mesh_of == NULL) return no_memory(err);
    kept->least = least_separation(det);
    for (int32_t i = 0; i < det->mesh_count; i++) {
        kept->solid[i] = det->solid[det->meshes[i].surface];
        kept->mesh_of[det->meshes[i].surface] = i;
    }
    return QPC_OK;
}

void qpc_kept_fini(qpc_kept *kept) {
    qpc_free(kept->x);
    qpc_free(kept->solid);
    qpc_free(kept->still);
    qpc_free(kept->moved);
    qpc_free(kept->mesh_of);
    qpc_array_fini(&kept->contacts);
    qpc_array_fini(&kept->tested);
}

// ---- proximity ----

bool qpc_kept_compare(qpc_kept *kept, const qpc_detector *det, const double *x, double reach) {
    bool all = true;
    for (int32_t i = 0; i < det->mesh_count; i++) {
        const qpc_mesh_part *m = &det->meshes[i];
        int64_t first = 3 * (int64_t)m->first_node;
        kept->still[i] = kept->solid[i] && kept->valid && kept->reach == reach &&
                         (!m->moving || memcmp(x + first, kept->x + first, 3 * (size_t)m->node_count * sizeof *x) == 0);
        all = all && kept->still[i];
    }
    return all;
}

void qpc_kept_drop(qpc_kept *kept) {
    int32_t count = 0;
    for (int32_t i = 0; i < kept->contacts.count; i++) {
        const qpc_contact *c = &kept->contacts.data[i];
        if (kept->still[kept->mesh_of[c->surface[0]]] && kept->still[kept->mesh_of[c->surface[1]]]) kept->contacts.data[count++] = *c;
    }
    kept->contacts.count = count;
    count = 0;
    for (int32_t i = 0; i < kept->tested.count; i++) {
        const qpc_tested *t = &kept->tested.data[i];
        if (kept->still[t->mesh[0]] && kept->still[t->mesh[1]]) kept->tested.data[count++] = *t;
    }
    kept->tested.count = count;
    kept->valid = kept->open = false; // until it is whole again
}

qpc_status qpc_kept_deliver(const qpc_kept *kept, qpc_detector *det, qpc_error *err) {
    int32_t count = kept->contacts.count;
    if (!qpc_array_reserve(&det->raw, (int64_t)det->raw.count + count)) return no_memory(err);
    if (count > 0) memcpy(det->raw.data + det->raw.count, kept->contacts.data, (size_t)count * sizeof *kept->contacts.data);
    det->raw.count += count;
    return QPC_OK;
}

qpc_status qpc_kept_add(qpc_kept *kept, const qpc_detector *det, const qpc_slice *slices, int32_t count, const double *x, double reach,
                        qpc_error *err) {
    int64_t total = kept->tested.count;
    for (int32_t i = 0; i < count; i++) total += slices[i].tested.count;
    if (!qpc_array_reserve(&kept->tested, total)) return no_memory(err);
    for (int32_t i = 0; i < count; i++) {
        if (slices[i].tested.count == 0) continue;
        memcpy(kept->tested.data + kept->tested.count, slices[i].tested.data, (size_t)slices[i].tested.count * sizeof *kept->tested.data);
        kept->tested.count += slices[i].tested.count;
    }
    kept->nearest = HUGE_VAL;
    for (int32_t i = 0; i < kept->tested.count; i++) kept->nearest = fmin(kept->nearest, kept->tested.data[i].ratio);
    for (int32_t i = 0; i < det->mesh_count; i++) {
        const qpc_mesh_part *m = &det->meshes[i];
        int64_t at = 3 * (int64_t)m->first_node;
        if (kept->solid[i] && m->moving && !kept->still[i]) memcpy(kept->x + at, x + at, 3 * (size_t)m->node_count * sizeof *x);
    }
    kept->reach = reach;
    kept->open = true;
    return QPC_OK;
}

qpc_status qpc_kept_close(qpc_kept *kept, const qpc_detector *det, const qpc_contacts *contacts, qpc_error *err) {
    if (!kept->open) return QPC_OK; // as it was
    kept->contacts.count = 0;
    if (!qpc_array_reserve(&kept->contacts, contacts->count)) return no_memory(err);
    for (int32_t i = 0; i < contacts->count; i++) {
        const qpc_contact *c = &contacts->data[i];
        if (det->solid[c->surface[0]] && det->solid[c->surface[1]]) kept->contacts.data[kept->contacts.count++] = *c;
    }
    kept->open = false;
    kept->valid = true;
    return QPC_OK;
}

// ---- motion ----

bool qpc_kept_rest(qpc_kept *kept, const qpc_detector *det, const double *x0, const double *x1) {
    bool all = true;
    for (int32_t i = 0; i < det->mesh_count; i++) {
        const qpc_mesh_part *m = &det->meshes[i];
        int64_t first = 3 * (int64_t)m->first_node;
        size_t size = 3 * (size_t)m->node_count * sizeof *x0;
        kept->still[i] = kept->solid[i] && kept->valid && kept->nearest > TOUCH &&
                         (!m->moving || (memcmp(x0 + first, x1 + first, size) == 0 && memcmp(x0 + first, kept->x + first, size) == 0));
        all = all && kept->still[i];
    }
    return all;
}

// ---- smallest gap ----

/// How far the nodes of solid surfaces are from where they were: most of all, or infinity if that is not known. pad: of distances.
static double measure(qpc_kept *kept, const qpc_detector *det, const double *x, double *pad) {
    double most = 0, extent = kept->extent;
    for (int32_t i = 0; i < det->mesh_count; i++) {
        const qpc_mesh_part *m = &det->meshes[i];
        double square = 0;
        kept->moved[i] = 0;
        if (!m->moving || !kept->solid[i]) continue;
        const double *from = kept->x + 3 * (int64_t)m->first_node, *to = x + 3 * (int64_t)m->first_node;
        if (memcmp(from, to, 3 * (size_t)m->node_count * sizeof *x) == 0) continue;
        if (kept->tested.count == 0) return HUGE_VAL; // nothing near is known
        for (int32_t k = 0; k < m->node_count; k++) {
            double d2 = v3_norm2(v3_sub(v3_load(to + 3 * (int64_t)k), v3_load(from + 3 * (int64_t)k)));
            if (!(d2 < DBL_MAX)) return HUGE_VAL;
            square = d2 > square ? d2 : square;
        }
        extent = fmax(extent, fmax(extent_of(m, x), extent_of(m, kept->x)));
        kept->moved[i] = sqrt(square) * (1 + 4 * DBL_EPSILON);
        most = fmax(most, kept->moved[i]);
    }
    *pad = most > 0 ? PAD * kept->least + ULPS * DBL_EPSILON * extent : 0;
    return most;
}

bool qpc_kept_gap(qpc_kept *kept, const qpc_detector *det, const double *x, double *best) {
    double pad = 0, most = kept->valid ? measure(kept, det, x, &pad) : HUGE_VAL;
    // What was not tested: at no less than this now.
    double rest = kept->reach - (2 * most + pad) / kept->least;
    if (!(most < HUGE_VAL) || !(rest > 0)) return false;
    if (most == 0 && kept->nearest <= rest) { // where it was
        *best = fmin(*best, kept->nearest);
        return true;
    }
    qpc_slice found = {.best = fmin(*best, rest)};
    int32_t first = 0;
    for (int32_t i = 1; i < kept->tested.count; i++)
        if (kept->tested.data[i].ratio < kept->tested.data[first].ratio) first = i;
    for (int32_t i = -1; i < kept->tested.count; i++) { // the one that was nearest before all others
        if (i < 0 ? kept->tested.count == 0 : i == first) continue;
        const qpc_tested *t = &kept->tested.data[i < 0 ? first : i];
        double separation = det->meshes[t->mesh[0]].radius + det->meshes[t->mesh[1]].radius;
        double moved = kept->moved[t->mesh[0]] + kept->moved[t->mesh[1]];
        if (moved > 0 ? t->ratio - (moved + pad) / separation >= found.best : t->ratio >= found.best) continue;
        qpc_sheet_pair pair;
        const qpc_mesh_part *meshes[2] = {det->meshes + t->mesh[0], det->meshes + t->mesh[1]};
        qpc_sheet_pair_make(det, t->pair, t->vt, meshes, &pair);
        qpc_sheet_gap(&pair, x, &found);
    }
    if (found.best == rest && rest < *best) return false; // nothing near is known
    *best = found.best;
    return true;
}
