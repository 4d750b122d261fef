/// Obstacles by a function: the signed distance phi of a point to a plane, sphere, capsule, box or cylinder, in the frame of
/// the obstacle, and what of it is needed for detection (docs/theory-obstacles.md, TO1 to TO8).
///
/// All five are convex, so phi is convex and 1-Lipschitz: phi(z) >= phi(y) + g.(z - y) for a (sub)gradient g at y. Everything
/// here rests on that inequality. No state, any thread.
#ifndef QPC_ENGINE_COLLISION_IMPLICIT_H
#define QPC_ENGINE_COLLISION_IMPLICIT_H

#include "base/vec.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum qpc_implicit_kind {
    QPC_IMPLICIT_PLANE,   // half space below: phi = coordinate along the axis
    QPC_IMPLICIT_SPHERE,  // radius
    QPC_IMPLICIT_CAPSULE, // radius about a segment along the axis, half[axis] to either side
    QPC_IMPLICIT_BOX,     // half: half its edges
    QPC_IMPLICIT_CYLINDER // radius, half[axis]; flat ends
} qpc_implicit_kind;

typedef struct qpc_implicit {
    qpc_implicit_kind kind;
    int axis;       // 0, 1, 2: x, y, z of the frame
    double radius;  // m
    double half[3]; // m; 0 where the kind has none
} qpc_implicit;

/// Signed distance of p, m: negative inside. ret_n (may be NULL): its gradient, unit; where it is not unique one of them.
double qpc_implicit_phi(const qpc_implicit *shape, qpc_vec3 p, qpc_vec3 *ret_n);
/// Where phi is that of a sphere or a cylinder at p: sin^2 of the angle between d and the directions in which it is straight, d
/// across the gradient, and the radius there, m; 0 where the shape is flat or has an edge. phi'' along d is part |d|^2 / radius.
double qpc_implicit_bends(const qpc_implicit *shape, qpc_vec3 p, qpc_vec3 d, double *ret_radius);
/// Largest distance of a point of it from its origin, m; 1 for a plane.
double qpc_implicit_reach(const qpc_implicit *shape);

/// Nodes of an obstacle: its origin, and the ends of its axes, `reach` away.
enum { QPC_IMPLICIT_NODES = 4 };
typedef struct qpc_implicit_frame {
    qpc_vec3 o, e[3]; // m; unit
} qpc_implicit_frame;
qpc_implicit_frame qpc_implicit_frame_of(const double *x); // x: (QPC_IMPLICIT_NODES x 3)
qpc_vec3 qpc_implicit_to_local(const qpc_implicit_frame *f, qpc_vec3 p);
qpc_vec3 qpc_implicit_to_world(const qpc_implicit_frame *f, qpc_vec3 direction);

/// Motion of a frame: the origin straight, the turn at an even rate about one axis, by less than pi.
typedef struct qpc_implicit_motion {
    qpc_implicit_frame start;
    qpc_vec3 shift, axis; // m; unit
    double turn;          // rad
} qpc_implicit_motion;
qpc_implicit_motion qpc_implicit_motion_of(const double *x0, const double *x1);
qpc_vec3 qpc_implicit_at_end(const qpc_implicit_motion *m, qpc_vec3 direction); // of the frame, in space, at the end of the motion

// ---- implicit_closest.c ----
enum { QPC_IMPLICIT_CORNERS = 8 };
/// A point of a vertex, a segment or a triangle, and phi there, in the frame.
typedef struct qpc_implicit_nearest {
    double phi, weight[3];
    qpc_vec3 at, n;
    int place; // tells several points of one feature apart
} qpc_implicit_nearest;
/// The point of count = 1 to 3 points' feature where phi is smallest (TO2, TO6). Where a triangle meets the shape phi <= 0.
qpc_implicit_nearest qpc_implicit_closest(const qpc_implicit *shape, int count, const qpc_vec3 *points);
/// Points inside of a triangle that corners of the shape are over (of round ones, points of their ends), at most
/// QPC_IMPLICIT_CORNERS; how many. Where a corner is through the triangle phi and n are those along its normal.
int qpc_implicit_over_corners(const qpc_implicit *shape, const qpc_vec3 p[3], qpc_implicit_nearest *ret);
/// Ends of the stretch of a segment about its nearest point that is level with the shape, nearer than `deep` m further away: two
/// at most, none if it is shorter than `apart` m (TO7).
int qpc_implicit_level_ends(const qpc_implicit *shape, const qpc_vec3 p[2], const qpc_implicit_nearest *near, double deep, double apart,
                            qpc_implicit_nearest *ret);

typedef struct qpc_implicit_hit {
    double toi, start;    // part of the motion; phi at its start, m
    bool at_start;        // it started nearer than s
    bool uncertain;       // 100 iterations did not decide
    qpc_implicit_nearest near; // there, in the frame of that time
} qpc_implicit_hit;
/// One to three points that go straight from x0 to x1 (space), their segment or triangle between them: does it come to phi = s while the frame moves?
/// One that starts nearer than s is tested at 0.9 of where it starts. False: phi > s all the way, rounding included; true: toi is no
/// later than the first time at s, and phi there is at most `most` above s.
bool qpc_implicit_hits(const qpc_implicit *shape, const qpc_implicit_motion *motion, int count, const qpc_vec3 *x0,
                       const qpc_vec3 *x1, double s, double most, qpc_implicit_hit *ret);

#endif
