/// What detection between surfaces must give, checked against brute force over all pairs.
#ifndef QPC_TESTS_SUPPORT_SHEET_CHECKS_H
#define QPC_TESTS_SUPPORT_SHEET_CHECKS_H

#include "tests/support/checker.h"
#include "tests/support/deforming.h"

typedef struct sheet_run {
    qpc_detector *det;
    qpc_contacts contacts, before; // of this call and the last proximity before
    double reach, factor;
    qpc_checker *exact;
    int32_t stride; // brute force looks at every stride-th feature; 0: none
    int64_t hits, near, self_near, touching;
} sheet_run;

/// cmocka assertions inside. Makes the detector at x0.
void sheet_run_start(sheet_run *r, const deforming *d);
void sheet_run_end(sheet_run *r);
/// Proximity and smallest gap at x0: contacts are what they say, each once, in order; the smallest
/// distance is found; each dynamic vertex has its contact.
void sheet_run_near(sheet_run *r, deforming *d);
/// Motion x0 -> x1: no pair that touches by the exact test is missed, none is late, none made up.
void sheet_run_motion(sheet_run *r, deforming *d);
/// Contacts in one array that the other has too (same key), and all of both.
int32_t sheet_common(const qpc_contacts *a, const qpc_contacts *b);

#endif
