/// Which body a node or spring is of, and bodies that are joined to groups. No state; any thread.
#include "engine/world/joints.h"

int32_t qpc_world_body_of_node(const qpc_world *w, int32_t node) {
    int32_t body = 0;
    while (node < w->bodies[body].first_node || node >= w->bodies[body].first_node + w->bodies[body].node_count) body++;
    return body;
}

int32_t qpc_world_body_of_spring(const qpc_world *w, int32_t spring) {
    int32_t body = 0;
    while (spring < w->bodies[body].first_spring || spring >= w->bodies[body].first_spring + w->bodies[body].spring_count) body++;
    return body;
}

int32_t qpc_world_body_of_row(const qpc_world *w, int32_t row) {
    int32_t source = w->rows.source[row];
    return w->rows.kind[row] == QPC_ROW_JOINT ? qpc_joints_body(w, source) : qpc_world_body_of_spring(w, source);
}

int32_t qpc_group_of(int32_t *group, int32_t i) {
    while (group[i] != i) i = group[i] = group[group[i]];
    return i;
}

void qpc_group_join(int32_t *group, int32_t i, int32_t k) {
    int32_t a = qpc_group_of(group, i), b = qpc_group_of(group, k);
    group[a] = group[b] = a < b ? a : b;
}
