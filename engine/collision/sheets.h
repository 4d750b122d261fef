/// Pairs of triangle surfaces of which one deforms, and a deforming surface with itself. Inside of
/// the detector, not for users of detection. The broad phase (broad.h) gives pairs slice by slice;
/// sheets.c walks them, on several threads if there are, sheetpairs.c decides each by its own
/// positions alone, sheetoverlap.c finds intersections.
///
/// A detector without a deforming mesh has none of this.
#ifndef QPC_ENGINE_COLLISION_SHEETS_H
#define QPC_ENGINE_COLLISION_SHEETS_H

#include "engine/collision/broad.h"
#include "engine/collision/detector.h"

// ---- walk: sheets.c ----

/// Of all meshes of the detector; x as for qpc_detector_create.
qpc_status qpc_sheets_create(const qpc_detector *det, const double *x, qpc_sheets **ret,
                             qpc_error *err);
void qpc_sheets_destroy(qpc_sheets *sheets);
/// Pairs of the motion x0 -> x1; counts the work. The broad phase then holds them.
qpc_status qpc_sheets_update(qpc_detector *det, const double *x0, const double *x1, double reach,
                             qpc_error *err);
const qpc_broad *qpc_sheets_broad(const qpc_sheets *sheets);
/// Append what surfaces have to det->raw; nothing if det->sheets is NULL. See qpc_detect_....
qpc_status qpc_sheets_proximity(qpc_detector *det, const double *x, double reach, qpc_error *err);
/// What a proximity call delivered, for the next.
qpc_status qpc_sheets_keep(qpc_detector *det, const qpc_contacts *contacts, qpc_error *err);
/// reach: of the boxes, in separations; factor: tested.
qpc_status qpc_sheets_motion(qpc_detector *det, const double *x0, const double *x1, double reach,
                             double factor, qpc_error *err);
/// Lower *best, in separations, to the nearest pair within reach.
qpc_status qpc_sheets_gap(qpc_detector *det, const double *x, double reach, double *best,
                          qpc_error *err);

// ---- one pair: sheetpairs.c ----

/// A vertex and a triangle (vt), or two edges, the lower global number first.
typedef struct qpc_sheet_pair {
    const qpc_mesh_part *mesh[2];
    int32_t feature[2]; // within the mesh
    int32_t node[4];    // global: vertex and corners; ends of edge i and of edge j
    double separation;  // m
    bool vt, near_self;
} qpc_sheet_pair;

/// The pair of these numbers; last: meshes of the pair before, or any.
void qpc_sheet_pair_make(const qpc_detector *det, qpc_pair numbers, bool vt, const qpc_mesh_part *last[2], qpc_sheet_pair *ret);
/// Are the features nearer along the rest shape than the surface's exclusion? False for two
/// surfaces.
bool qpc_sheet_near_self(const qpc_sheet_pair *pair);
/// A contact nearer than reach separations that is a local minimum of the distance. Returns the distance.
double qpc_sheet_proximity(const qpc_sheet_pair *pair, const double *x, double reach, qpc_slice *out);
/// A hit of the motion at factor separations.
void qpc_sheet_motion(const qpc_sheet_pair *pair, const double *x0, const double *x1, double factor,
                      qpc_slice *out);
void qpc_sheet_gap(const qpc_sheet_pair *pair, const double *x, qpc_slice *out);

// ---- sheetkept.c ----

/// What the last proximity call found between solid surfaces: static, kinematic or rigid. A cache: what is taken from it has
/// the bits that a call without it gives.
typedef struct qpc_kept {
    double *x;              // (nodes x 3) where solid surfaces that move were; NULL: there is no rigid surface
    uint8_t *solid, *still; // (meshes) keeps its form; is where it was, to the bit
    double *moved;          // (meshes) scratch of qpc_kept_gap: no node by more than this, m
    int32_t *mesh_of;       // (surfaces)
    bool deforming;         // there are other meshes
    bool valid, open;       // the rest is that of x; but for contacts
    double reach, nearest;  // of the call; smallest ratio of `tested`
    double least;           // separation, m
    double extent;          // largest coordinate of a static surface, m
    qpc_contacts contacts;
    QPC_ARRAY(qpc_tested) tested; // all other pairs are out of reach
} qpc_kept;

qpc_status qpc_kept_init(qpc_kept *kept, const qpc_detector *det, const double *x, qpc_error *err);
void qpc_kept_fini(qpc_kept *kept);
/// Which surfaces are still where they were; true if all are.
bool qpc_kept_compare(qpc_kept *kept, const qpc_detector *det, const double *x, double reach);
/// Forget what is not between two that are still. No call takes from it until qpc_kept_add.
void qpc_kept_drop(qpc_kept *kept);
/// Append its contacts to det->raw.
qpc_status qpc_kept_deliver(const qpc_kept *kept, qpc_detector *det, qpc_error *err);
/// What a call at x tested of pairs that are not both still; then what was delivered of it, after which calls may take from it.
qpc_status qpc_kept_add(qpc_kept *kept, const qpc_detector *det, const qpc_slice *slices, int32_t count, const double *x, double reach,
                        qpc_error *err);
qpc_status qpc_kept_close(qpc_kept *kept, const qpc_detector *det, const qpc_contacts *contacts, qpc_error *err);
/// Which surfaces stay, in a motion x0 -> x1, where they were, to the bit: two of these that do not touch hit nothing. True if all do.
bool qpc_kept_rest(qpc_kept *kept, const qpc_detector *det, const double *x0, const double *x1);
/// Lower *best to the smallest gap between solid surfaces at x, in separations. False: that takes a walk, and nothing is done.
bool qpc_kept_gap(qpc_kept *kept, const qpc_detector *det, const double *x, double *best);

// ---- sheetoverlap.c ----

/// Report intersections whose edge belongs to a mesh of the surfaces [first, end), as
/// qpc_detect_overlaps does.
qpc_status qpc_sheets_overlaps(qpc_detector *det, const double *x, int32_t first, int32_t end,
                               qpc_overlap *ret, int32_t max, int64_t *count, qpc_error *err);
/// Brute force over boxes (a sample of them on large meshes): no pair is missing.
bool qpc_sheets_check(qpc_detector *det, const double *x0, const double *x1, qpc_error *err);

#endif
