/* SPDX-License-Identifier: MIT
 * NCCL as this runtime uses it: collectives between devices. One row an entry point, found in libnccl.so.2 at run time,
 * so that neither its header nor the library is needed to build. Names, values and signatures are those of its public
 * reference. What is made of them is in ranks.h. */
#ifndef TCC_RUNTIME_CUDA_NCCL_H
#define TCC_RUNTIME_CUDA_NCCL_H

#include "runtime/cuda/vendor.h"

typedef int tcc_nccl_result; /* 0: ncclSuccess */
enum { TCC_NCCL_SYSTEM_ERROR = 2, TCC_NCCL_REMOTE_ERROR = 6, TCC_NCCL_IN_PROGRESS = 7 };

/* ncclDataType_t */
enum {
    TCC_NCCL_INT8 = 0,
    TCC_NCCL_UINT8 = 1,
    TCC_NCCL_INT32 = 2,
    TCC_NCCL_INT64 = 4,
    TCC_NCCL_FLOAT16 = 6,
    TCC_NCCL_FLOAT32 = 7,
    TCC_NCCL_FLOAT64 = 8,
    TCC_NCCL_BFLOAT16 = 9
};
enum { TCC_NCCL_SUM = 0 }; /* ncclRedOp_t */

typedef struct tcc_nccl_comm_st *tcc_nccl_comm;
typedef struct tcc_nccl_id {
    char bytes[128];
} tcc_nccl_id;

/* ncclConfig_t as of 2.14; newer libraries take it by its size and version. */
typedef struct tcc_nccl_config {
    size_t size;
    unsigned magic, version;
    int blocking;
} tcc_nccl_config;
enum { TCC_NCCL_OLDEST = 21400 };
#define TCC_NCCL_MAGIC 0xcafebeefU

/* field, result, symbol, parameters; counts count elements */
#define TCC_NCCL_CALLS(X)                                                                                    \
    X(get_version, tcc_nccl_result, "ncclGetVersion", (int *version))                                        \
    X(error_string, const char *, "ncclGetErrorString", (tcc_nccl_result result))                            \
    X(last_error, const char *, "ncclGetLastError", (tcc_nccl_comm comm))                                    \
    X(unique_id, tcc_nccl_result, "ncclGetUniqueId", (tcc_nccl_id * id))                                     \
    X(init, tcc_nccl_result, "ncclCommInitRankConfig",                                                       \
      (tcc_nccl_comm * comm, int ranks, tcc_nccl_id id, int rank, tcc_nccl_config *config))                  \
    X(async_error, tcc_nccl_result, "ncclCommGetAsyncError", (tcc_nccl_comm comm, tcc_nccl_result * result)) \
    X(finalize, tcc_nccl_result, "ncclCommFinalize", (tcc_nccl_comm comm))                                   \
    X(destroy, tcc_nccl_result, "ncclCommDestroy", (tcc_nccl_comm comm))                                     \
    X(abort, tcc_nccl_result, "ncclCommAbort", (tcc_nccl_comm comm))                                         \
    X(group_start, tcc_nccl_result, "ncclGroupStart", (void))                                                \
    X(group_end, tcc_nccl_result, "ncclGroupEnd", (void))                                                    \
    X(send, tcc_nccl_result, "ncclSend",                                                                     \
      (tcc_cuda_address from, size_t count, int type, int peer, tcc_nccl_comm comm, tcc_cuda_stream stream)) \
    X(receive, tcc_nccl_result, "ncclRecv",                                                                  \
      (tcc_cuda_address to, size_t count, int type, int peer, tcc_nccl_comm comm, tcc_cuda_stream stream))   \
    X(broadcast, tcc_nccl_result, "ncclBroadcast",                                                           \
      (tcc_cuda_address from, tcc_cuda_address to, size_t count, int type, int root, tcc_nccl_comm comm,     \
       tcc_cuda_stream stream))                                                                              \
    X(all_gather, tcc_nccl_result, "ncclAllGather",                                                          \
      (tcc_cuda_address from, tcc_cuda_address to, size_t count, int type, tcc_nccl_comm comm,               \
       tcc_cuda_stream stream))                                                                              \
    X(all_reduce, tcc_nccl_result, "ncclAllReduce",                                                          \
      (tcc_cuda_address from, tcc_cuda_address to, size_t count, int type, int op, tcc_nccl_comm comm,       \
       tcc_cuda_stream stream))                                                                              \
    X(reduce_scatter, tcc_nccl_result, "ncclReduceScatter",                                                  \
      (tcc_cuda_address from, tcc_cuda_address to, size_t count, int type, int op, tcc_nccl_comm comm,       \
       tcc_cuda_stream stream))

typedef struct tcc_nccl {
    bool usable;
    int version; /* 22809 is 2.28.9 */
#define X(field, result, symbol, parameters) result(*field) parameters;
    TCC_NCCL_CALLS(X)
#undef X
    char text[TCC_VENDOR_TEXT]; /* version and file, or why it is not used and what is lost */
} tcc_nccl;
#define X(field, result, symbol, parameters) \
    static const char tcc__nccl_symbol_##field[] __attribute__((unused)) = symbol;
TCC_NCCL_CALLS(X)
#undef X

/* Looks for the library; TCC_LIBRARIES may switch it off. */
void tcc_nccl_find(tcc_nccl *out);
extern const tcc_vendor_library tcc__nccl_library;
/* "ncclAllReduce: unhandled system error (what the library says more)". TCC_EIO where a peer or the network is the
 * cause, else TCC_EDEVICE. `comm`: NULL where there is none. */
tcc_status tcc__nccl_failed(const tcc_nccl *nccl, tcc_diag *d, tcc_nccl_result result, tcc_nccl_comm comm,
                            const char *call);

#endif
