/// One thread for BLAS. See blas.h.
#include "engine/dynamics/blas.h"

#include <cblas.h>
#include <pthread.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void set(void) {
    openblas_set_num_threads(1);
}

/// Before main: no worker can be inside BLAS with threads of its own while another turns them off.
__attribute__((constructor)) void qpc_blas_one_thread(void) {
    pthread_once(&once, set);
}
