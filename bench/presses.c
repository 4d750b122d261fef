/// Rows that contradict: sheets and cables between a floor and a plate that comes down all the same, and a sheet whose strain limits a
/// ball pulls at. In process, one thread, default settings.
///
///     bench_presses [--scene NAME] [--commit ID] [--csv FILE] [--check] [--verbose]
///
/// sheets: 8 x 8 and 9 x 9 particles over 0.5 m, r 8 mm, plate at 0.2 m/s. cable-on-sheet: 30 particles on 10 x 10, plate at 0.1 m/s.
/// limits: 12 x 12 particles over 1 m, pinned at the corners, limits of 5 %, a ball from below at 0.5 m/s.
/// With friction: crush-N, N x N particles over 0.4 m upright under a plate at 0.5 m/s; squeeze-N, the same tilted by 14 degrees between
/// two boxes that close at 0.4 m/s each; slide-50, 50 x 50 over 1 m on a ball of radius 0.3 m. Each runs as long as is written
/// below. Times are thread CPU time; counts are exact. See docs/benchmarks.md.
#include "bench/scene_run.h"

#include <stdio.h>
#include <string.h>

#define FLOOR "{'name':'floor','kind':'static','mesh':{'generate':{'kind':'box','width':4,'height':0.2,'depth':4}},'position':[0,-0.1,0]}"
#define PLATE(y, v)                                                                                                               \
    "{'name':'plate','kind':'kinematic','mesh':{'generate':{'kind':'box','width':1,'height':0.2,'depth':1}},'position':[0," y ",0],"  \
    "'velocity':[0," v ",0]}"
#define SHEET(name, nodes, width, mass, radius, y)                                                                                \
    "{'name':'" name "','kind':'cloth','mesh':{'generate':{'kind':'grid','columns':" nodes ",'rows':" nodes ",'width':" width "}},"   \
    "'mass':" mass ",'membrane_stiffness':1000,'radius':" radius ",'position':[0," y ",0]}"

#define CLOTH(nodes, material, place)                                                                                              \
    "{'name':'s','kind':'cloth','mesh':{'generate':{'kind':'grid','columns':" nodes ",'rows':" nodes ",'width':0.4}},'mass':0.05,"   \
    material ",'radius':0.005," place "}"
#define CRUSH(nodes, material, mu)                                                                                                \
    "'contacts':{'friction':" mu "},'bodies':[" FLOOR "," PLATE("0.57", "-0.5") ","                                                    \
    CLOTH(nodes, material, "'position':[0,0.23,0],'rotation':[0.7,0.68,0.05,0.05]") "]"
#define WALL(name, x, v)                                                                                                          \
    "{'name':'" name "','kind':'kinematic','mesh':{'generate':{'kind':'box','width':0.2,'height':0.3,'depth':1}},'position':[" x ",0.16,0]," \
    "'velocity':[" v ",0,0]}"
#define SQUEEZE(nodes, material, mu)                                                                                              \
    "'contacts':{'friction':" mu "},'bodies':[" FLOOR "," WALL("l", "-0.32", "0.4") "," WALL("r", "0.32", "-0.4") ","                    \
    CLOTH(nodes, material, "'position':[0,0.06,0],'rotation':[0.992,0.03,0.02,0.12]") "]"
#define BALL                                                                                                                      \
    "{'name':'b','kind':'static','mesh':{'generate':{'kind':'sphere','triangles':1024,'radius':0.3}},'position':[0,0,0.02]}"

static const struct {
    const char *name, *scene; // what follows dt and gravity
    double seconds;
} SCENES[] = {
    {"sheets",
     "'bodies':[" FLOOR "," PLATE("0.2", "-0.2") "," SHEET("s", "8", "0.5", "0.1", "0.008", "0.0081") "," SHEET("t", "9", "0.45", "0.1", "0.008", "0.03") "]",
     0.55},
    {"cable-on-sheet",
     "'bodies':[" FLOOR "," PLATE("0.25", "-0.1") "," SHEET("s", "10", "0.5", "0.1", "0.01", "0.011") ",{'name':'c','kind':'cable','nodes':{'generate':{"
     "'kind':'line','from':[-0.3,0.05,0],'to':[0.3,0.05,0.02],'count':30}},'mass':0.01,'stiffness':1e4,'radius':0.012}]",
     1.31},
    {"limits",
     "'bodies':[" SHEET("s", "12", "1", "0.2", "0.008", "1") ",{'name':'b','kind':'kinematic','mesh':{'generate':{'kind':'sphere','triangles':256,"
     "'radius':0.2}},'position':[0,0.75,0.02],'velocity':[0,0.5,0]}],'constraints':[{'kind':'fixed','body':'s','nodes':[0,11,132,143]},"
     "{'kind':'strain-limit','body':'s','max':1.05,'min':0.95}]",
     0.7},
    // Sheets that fold with friction: upright under a plate, between two boxes, over a ball.
    {"crush-14", CRUSH("14", "'membrane_stiffness':1000", "0.5"), 0.6},
    {"crush-20", CRUSH("20", "'young':1e6,'thickness':0.001", "0.5"), 0.6},
    {"squeeze-14", SQUEEZE("14", "'young':1e6,'thickness':0.001", "0.3"), 0.6},
    {"squeeze-20", SQUEEZE("20", "'membrane_stiffness':1000", "0.8"), 0.6},
    {"slide-50",
     "'contacts':{'friction':0.3},'bodies':[" BALL ",{'name':'s','kind':'cloth','mesh':{'generate':{'kind':'grid','columns':50,'rows':50,'width':1}},"
     "'mass':0.2,'membrane_stiffness':1000,'radius':0.004,'position':[0,0.31,0]}]",
     0.3},
};

static qpc_status run(size_t k, const bench_scene_options *o, bench_scene_figures *f, qpc_error *err) {
    char text[4096];
    qpc_test_meshes *meshes = qpc_test_meshes_create();
    qpc_value scene = qpc_nil();
    (void)snprintf(text, sizeof text, "{'dt':%g,'gravity':[0,-9.81,0],%s}", o->dt, SCENES[k].scene);
    qpc_status st = qpc_test_scene_text(text, meshes, &scene, err);
    if (st == QPC_OK) st = bench_scene_run(&scene, meshes, o, f, err);
    qpc_value_fini(&scene);
    qpc_test_meshes_destroy(meshes);
    return st;
}

int main(int argc, char **argv) {
    const char *only = NULL;
    int failures = 0;
    bench_scene_options o = {.dt = 0.005, .commit = "unknown"};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--scene") == 0 && i + 1 < argc) only = argv[++i];
        else if (!bench_scene_option(argc, argv, &i, &o)) {
            (void)fprintf(stderr, "usage: bench_presses [--scene NAME] " BENCH_SCENE_USAGE "\n");
            return 2;
        }
    }
    for (size_t k = 0; k < sizeof SCENES / sizeof *SCENES; k++) {
        bench_scene_figures f = {0};
        bench_scene_options one = o;
        qpc_error err = {0};
        if (only != NULL && strcmp(only, SCENES[k].name) != 0) continue;
        if (!(o.seconds > 0)) one.seconds = SCENES[k].seconds;
        if (run(k, &one, &f, &err) != QPC_OK) {
            (void)fprintf(stderr, "%s: %s\n", SCENES[k].name, err.message);
            return 1;
        }
        failures += bench_scene_report(SCENES[k].name, &f, &one);
    }
    return failures > 0;
}
