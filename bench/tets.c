/// Elements of soft bodies: ns for energy, forces and Jacobian of each.
///
///     bench_tets [--cells N] [--runs N] [--commit ID] [--csv FILE]
///     bench_tets --mesh FILE [--runs N]
///
/// A box of N x N x N cells of five tetrahedra (16: 20,480 elements, 4,913 nodes), near rest (nodes moved by 2 % of an edge),
/// far from it (by half an edge, a part of the elements inside out), and near rest in a shuffled order of the elements.
/// `jacobian` is qpc_tets_linearise(): K, f and Hv. Thread CPU time, the least of the runs.
/// With --mesh whole steps instead: that body, pressed by a ball (tets_mesh.h).
#include "bench/machine.h"
#include "bench/tets_mesh.h"
#include "bench/timing.h"
#include "tests/support/softbox.h"

#include <math.h>
#include <stdio.h>

static uint64_t seed = 3;
static double uniform(void) {
    seed = seed * 6364136223846793005U + 1442695040888963407U;
    return (double)(int64_t)(seed >> 11) / (double)(1LL << 52) - 1;
}

static void swap(void *p, void *q, size_t size) {
    unsigned char keep[9 * sizeof(double)];
    memcpy(keep, p, size);
    memcpy(p, q, size);
    memcpy(q, keep, size);
}

static void shuffle(softbox *b) {
    for (int32_t e = b->count - 1; e > 0; e--) {
        int32_t o = (int32_t)((uniform() + 1) / 2 * e);
        if (o == e) continue;
        swap(b->rest.inverse + 9 * e, b->rest.inverse + 9 * o, 9 * sizeof(double));
        swap(b->rest.volume + e, b->rest.volume + o, sizeof(double));
        swap(b->tet + 4 * e, b->tet + 4 * o, 4 * sizeof(int32_t));
        swap(b->place + 6 * e, b->place + 6 * o, 6 * sizeof(int32_t));
    }
}

typedef struct figures { double energy, force, jacobian; } figures;

static double least(double best, double from, int32_t count) {
    double ns = (bench_ms(CLOCK_THREAD_CPUTIME_ID) - from) * 1e6 / count;
    return ns < best ? ns : best;
}

static figures measure(softbox *b, const double *x, const double *v, double *f, double *Hv, int runs) {
    figures r = {HUGE_VAL, HUGE_VAL, HUGE_VAL};
    volatile double sink = 0;
    for (int k = 0; k < runs; k++) {
        double t = bench_ms(CLOCK_THREAD_CPUTIME_ID);
        sink = sink + qpc_tets_energy(&b->tets, x);
        r.energy = least(r.energy, t, b->count);
        t = bench_ms(CLOCK_THREAD_CPUTIME_ID);
        qpc_tets_force(&b->tets, x, f);
        r.force = least(r.force, t, b->count);
        t = bench_ms(CLOCK_THREAD_CPUTIME_ID);
        qpc_tets_linearise(&b->tets, x, v, 0.005, &b->K, f, Hv);
        r.jacobian = least(r.jacobian, t, b->count);
    }
    return r;
}

static int usage(void) {
    fprintf(stderr, "usage: bench_tets [--cells N] [--runs N] [--commit ID] [--csv FILE]\n       bench_tets --mesh FILE [--runs N]\n");
    return 2;
}

int main(int argc, char **argv) {
    int32_t cells = 16, runs = 20;
    const char *commit = "unknown", *path = NULL, *mesh = NULL;
    static const char *const MATERIAL[] = {"corotational", "neo-hookean"}, *const STATE[] = {"near", "far", "near-shuffled"};
    for (int i = 1; i < argc; i++) {
        if (i + 1 == argc) return usage();
        if (strcmp(argv[i], "--cells") == 0) cells = atoi(argv[++i]);
        else if (strcmp(argv[i], "--runs") == 0) runs = atoi(argv[++i]);
        else if (strcmp(argv[i], "--commit") == 0) commit = argv[++i];
        else if (strcmp(argv[i], "--csv") == 0) path = argv[++i];
        else if (strcmp(argv[i], "--mesh") == 0) mesh = argv[++i];
        else return usage();
    }
    if (cells < 1 || cells > 100 || runs < 1) return usage();
    if (mesh != NULL) return bench_tets_mesh(mesh, runs) ? 0 : 1;
    char cpu[128];
    bench_cpu(cpu, sizeof cpu);
    FILE *csv = path != NULL ? fopen(path, "ae") : NULL;
    if (path != NULL && csv == NULL) return 1;
    if (csv != NULL && fseek(csv, 0, SEEK_END) == 0 && ftell(csv) == 0)
        fprintf(csv, "cpu,compiler,commit,material,state,nodes,elements,energy_ns,force_ns,jacobian_ns\n");
    for (int m = 0; m < 2; m++) {
        softbox b;
        qpc_error err = {0};
        if (!softbox_make(&b, (int32_t[]){cells, cells, cells}, (double[]){1, 1, 1}, true, 1e5, 0.4,
                          m ? QPC_TET_NEO_HOOKEAN : QPC_TET_COROTATIONAL, &err)) {
            fprintf(stderr, "%s\n", err.message);
            return 1;
        }
        size_t n = 3 * (size_t)b.nodes;
        double *x = malloc(n * sizeof *x), *v = malloc(n * sizeof *v), *f = calloc(n, sizeof *f), *Hv = calloc(n, sizeof *Hv);
        if (x == NULL || v == NULL || f == NULL || Hv == NULL) return 1;
        for (int s = 0; s < 3; s++) {
            for (size_t i = 0; i < n; i++) {
                x[i] = b.x[i] + (s == 1 ? 0.5 : 0.02) / cells * uniform();
                v[i] = uniform();
            }
            if (s == 2) shuffle(&b);
            figures r = measure(&b, x, v, f, Hv, runs);
            printf("%-13s %-14s %6d nodes %7d elements   energy %6.1f  force %6.1f  jacobian %6.1f ns per element\n",
                   MATERIAL[m], STATE[s], b.nodes, b.count, r.energy, r.force, r.jacobian);
            if (csv != NULL)
                fprintf(csv, "%s,%s,%s,%s,%s,%d,%d,%.1f,%.1f,%.1f\n", cpu, bench_compiler(), commit, MATERIAL[m],
                        STATE[s], b.nodes, b.count, r.energy, r.force, r.jacobian);
        }
        free(x);
        free(v);
        free(f);
        free(Hv);
        softbox_fini(&b);
    }
    return csv != NULL && fclose(csv) != 0;
}
