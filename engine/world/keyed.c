/// Sorting what rows and contacts are named by. Lists come in a few ascending runs (rows of limits, of contacts, of the
/// hits of each pass), so runs are merged: one look at a list that is in order, n log(runs) else. No state; any thread.
#include "engine/world/attempt.h"

static int32_t run_end(const qpc_keyed *list, int32_t from, int32_t count) {
    int32_t end = from + 1;
    while (end < count && list[end - 1].key <= list[end].key) end++;
    return end;
}

qpc_keyed *qpc_keyed_sort(qpc_keyed *list, qpc_keyed *spare, int32_t count) {
    while (count > 0 && run_end(list, 0, count) < count) { // each sweep halves the number of runs
        for (int32_t from = 0; from < count;) {
            int32_t middle = run_end(list, from, count), end = middle < count ? run_end(list, middle, count) : count;
            int32_t i = from, k = middle;
            for (int32_t at = from; at < end; at++)
                spare[at] = i < middle && (k >= end || list[i].key <= list[k].key) ? list[i++] : list[k++];
            from = end;
        }
        qpc_keyed *swap = list;
        list = spare;
        spare = swap;
    }
    return list;
}
