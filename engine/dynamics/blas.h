/// BLAS on the calling thread alone: threads of its own would fight with the workers and sum in another order.
#ifndef QPC_ENGINE_DYNAMICS_BLAS_H
#define QPC_ENGINE_DYNAMICS_BLAS_H

/// It is so before main where a program links this; call it before BLAS nonetheless. Again costs nothing. Any thread.
void qpc_blas_one_thread(void);

#endif
