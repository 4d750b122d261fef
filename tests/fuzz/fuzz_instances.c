/// Any bytes are an instance or an error that names what is wrong. What it holds may be any finite
/// numbers: its claims are checked without a crash, and an instance that passes is solved and
/// judged.
#include "tests/fuzz/fuzz.h"

#include "base/mem.h"
#include "tools/qp_run.h"

static void solve(const qp_ground *ground, qpc_solver_id id) {
    qpc_arena arena = {0};
    qpc_error err = {0};
    qp_result result;
    FUZZ_CHECK(qp_run(ground, id, NULL, 1, &arena, &result, &err) == QPC_OK);
    FUZZ_CHECK(result.verdict == QP_HOLDS || result.why[0] != '\0');
    qp_result_fini(&result);
    qpc_arena_fini(&arena);
}

static void solve_friction(const qp_ground *ground, qpc_friction_mode mode) {
    qpc_arena arena = {0};
    qpc_error err = {0};
    qp_result result;
    FUZZ_CHECK(qp_run_friction(ground, mode, 1, &arena, &result, &err) == QPC_OK);
    qp_result_fini(&result);
    qpc_arena_fini(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    qpc_error err = {0};
    qp_file file;
    qpc_status status = qp_file_parse(data, size, &file, &err);
    FUZZ_CHECK(status == QPC_OK || (status == QPC_ERR_CORRUPT && err.message[0] != '\0'));
    if (status == QPC_OK) {
        qp_ground ground;
        status = qp_ground_init(&ground, &file, &err);
        FUZZ_CHECK(status == QPC_OK || status == QPC_ERR_LIMIT ||
                   (status == QPC_ERR_CORRUPT && err.message[0] != '\0'));
        if (status == QPC_OK && file.kind != QP_KIND_FRICTION && file.n <= 64 && file.m <= 64) {
            solve(&ground, QPC_SOLVER_AUTO);
            solve(&ground, QPC_SOLVER_ACTIVE_SET);
        }
        if (status == QPC_OK && file.kind == QP_KIND_FRICTION && file.m <= 16) {
            solve_friction(&ground, QPC_FRICTION_EXACT);
            solve_friction(&ground, QPC_FRICTION_STAGGERED);
        }
        if (status == QPC_OK) qp_ground_fini(&ground);
        qp_file_fini(&file);
    }
    FUZZ_CHECK(qpc_mem_live_blocks() == 0);
    return 0;
}
