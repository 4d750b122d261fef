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

/// Are the features nearer along the rest shape than the surface's exclusion? False for two
/// surfaces.
bool qpc_sheet_near_self(const qpc_sheet_pair *pair);
/// A contact nearer than reach separations that is a local minimum of the distance.
void qpc_sheet_proximity(const qpc_sheet_pair *pair, const double *x, double reach, qpc_slice *out);
/// A hit of the motion at factor separations.
void qpc_sheet_motion(const qpc_sheet_pair *pair, const double *x0, const double *x1, double factor,
                      qpc_slice *out);
void qpc_sheet_gap(const qpc_sheet_pair *pair, const double *x, qpc_slice *out);

// ---- sheetoverlap.c ----

/// Report intersections whose edge belongs to a mesh of the surfaces [first, end), as
/// qpc_detect_overlaps does.
qpc_status qpc_sheets_overlaps(qpc_detector *det, const double *x, int32_t first, int32_t end,
                               qpc_overlap *ret, int32_t max, int64_t *count, qpc_error *err);
/// Brute force over boxes (a sample of them on large meshes): no pair is missing.
bool qpc_sheets_check(qpc_detector *det, const double *x0, const double *x1, qpc_error *err);

#endif
