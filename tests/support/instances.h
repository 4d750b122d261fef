/// The QP instances of tests/data/qp, and what every solver's answer to one is held to.
#ifndef QPC_TESTS_SUPPORT_INSTANCES_H
#define QPC_TESTS_SUPPORT_INSTANCES_H

#include "engine/solver/certificate.h"
#include "engine/solver/solver.h"
#include "tests/support/check.h"
#include "tests/support/faults.h"
#include "tests/support/qpb.h"

static const char *const instance_names[] = {"tiny_depeq",     "tiny_dup3",
                                             "tiny_eqfix",     "tiny_floor1",
                                             "tiny_free",      "tiny_nearpar",
                                             "tiny_pyramid4",  "tiny_ratio",
                                             "tiny_ring64",    "tiny_ring64p",
                                             "tiny_weak",      "cable_050",
                                             "cable_050_dup",  "cable_050_near",
                                             "cable_100_10t",  "cable_100_light",
                                             "cable_100_soft", "cable_3x40_cross3",
                                             "stack_03",       "stack_10_16pt",
                                             "stack_10_1e4",   "stack_10_static",
                                             "stack_30_1e4",   "wall_6x4",
                                             "pyramid_10",     "rand_030_m400",
                                             "rand_060",       "rand_200_1e8",
                                             "rand_200_dup",   "rand_300_weak",
                                             "needles_30x8",   "needles_60x10",
                                             "fathi_20",       "massspan_40",
                                             "nearinf_20",     "seq_cable_00",
                                             "seq_cable_05",   "seq_cable_09",
                                             "cloth_10",       "mm_HS118",
                                             "mm_HS268",       "mm_HS35MOD",
                                             "mm_QPCBLEND",    "mm_QPCBOEI2",
                                             "mm_QPCBOEI1",    NULL};

static const char *const infeasible_names[] = {
    "inf_eq_conflict", "inf_jam",          "inf_pin_in_floor",         "inf_sheet",
    "inf_squeeze",     "inf_strain_chain", "inf_strain_chain_contact", NULL};

static inline void instance_load(const char *name, qpb_problem *p) {
    char path[512];
    snprintf(path, sizeof path, "%s/qp/%s.qpb", QPC_TEST_DATA, name);
    if (!qpb_load(path, p)) fail_msg("cannot load %s", path);
}

/// Exact answers; data files have no common unit, so that m/s decide nothing here.
static inline qpc_solver_options instance_options(void) {
    qpc_solver_options options = qpc_solver_options_default();
    options.exact = true;
    options.residual_tolerance = 1e300;
    return options;
}

/// Out of memory at any call, an engine leaves the answer alone.
static inline void instance_endures_want_of_memory(qpc_solver_id id) {
    qpb_problem p;
    instance_load("tiny_pyramid4", &p);
    qpc_solver_options options = instance_options();
    QPC_FAULTS(f) {
        qpc_arena own = {0};
        double x[8] = {7}, lambda[8] = {0};
        qpc_solver_report report;
        qpc_error err = {0};
        qpc_status status = qpc_solve(id, &p.qp, &options, &own, x, lambda, &report, &err);
        if (!qpc_faults_ended(&f, status)) assert_near(x[0], 7, 0);
        qpc_arena_fini(&own);
    }
    qpb_free(&p);
}

/// The solution is the stored one, by its distance and by the certificate.
static inline void instance_check(const qpb_problem *p, const double *x, const double *lambda,
                                  qpc_arena *arena) {
    qpc_certificate c;
    qpc_error err = {0};
    assert_ok(qpc_certify(&p->qp, x, lambda, arena, &c, &err), &err);
    double distance = qpb_distance(p, x, p->x);
    if (!(distance <= 1e-8)) fail_msg("%s: %g from the solution", p->name, distance);
    // Multipliers of mass ratio 1e4 make lambda's size, not the error, limit comp: 9e-12 is what
    // the stored solution itself reaches there.
    if (!(c.stat <= 1e-9 && c.prim <= 1e-9 && c.dual <= 0 && c.comp <= 1e-10))
        fail_msg("%s: stat %g prim %g dual %g comp %g", p->name, c.stat, c.prim, c.dual, c.comp);
}

#endif
