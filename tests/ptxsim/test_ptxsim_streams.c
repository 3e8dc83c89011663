/* SPDX-License-Identifier: MIT
 * The order of things: streams, events, the default stream, captured graphs; work that nothing waits for does not
 * happen. */
#include "driver.h"

#include <pthread.h>

enum { N = 256, BYTES = N * 4 };

static const char kernels[] =
    PTX_HEAD KERNEL("increment", "ld.global.u32 %r5, [%d3];\n add.u32 %r5, %r5, %r1;\n st.global.u32 [%d3], %r5;")
        KERNEL("copy", "ld.global.u32 %r5, [%d3];\n add.u32 %r5, %r5, %r1;\n st.global.u32 [%d4], %r5;");

static CUfunction increment, copy;
static uint32_t *host;
static CUdeviceptr a, b;
static CUstream s1, s2;

static void begin(void) {
    fresh_device();
    CUmodule m = load(kernels);
    increment = function_of(m, "increment"), copy = function_of(m, "copy");
    assert_cuda(cuMemHostAlloc((void **)&host, BYTES, 0));
    a = device_alloc(BYTES), b = device_alloc(BYTES);
    assert_cuda(cuMemsetD32_v2(a, 1, N));
    assert_cuda(cuMemsetD32_v2(b, 2, N));
    assert_cuda(cuCtxSynchronize());
    assert_cuda(cuStreamCreate(&s1, CU_STREAM_NON_BLOCKING));
    assert_cuda(cuStreamCreate(&s2, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < N; i++) host[i] = 7;
}

static CUresult run(CUfunction f, CUdeviceptr x, CUdeviceptr y, int n, CUstream s) {
    return cuLaunchKernel(f, 1, 1, 1, N, 1, 1, 0, s, (void *[]){&x, &y, &n}, NULL);
}

static void work_happens_when_waited_for(void **state) {
    (void)state;
    begin();
    assert_cuda(run(increment, a, a, 5, s1));
    assert_cuda(cuMemcpyDtoHAsync_v2(host, a, BYTES, s1));
    assert_true(host[0] != 6); /* too early */
    assert_true(host[0] == 0xffffffff);
    assert_cuda(cuStreamSynchronize(s2));
    assert_true(host[0] != 6); /* the wrong stream */
    assert_cuda_is(cuStreamQuery(s1), CUDA_ERROR_NOT_READY);
    assert_cuda(cuStreamSynchronize(s1));
    for (int i = 0; i < N; i++) assert_int_equal(host[i], 6);
    assert_cuda(cuStreamQuery(s1));
    /* Polling alone gets there. */
    assert_cuda(run(increment, a, a, 1, s1));
    assert_cuda(cuMemcpyDtoHAsync_v2(host, a, BYTES, s1));
    int polls = 0;
    while (cuStreamQuery(s1) == CUDA_ERROR_NOT_READY) polls++;
    assert_true(polls > 0 && polls < 10);
    assert_int_equal(host[0], 7);
}

static void pinned_sources_are_read_late(void **state) {
    (void)state;
    uint32_t pageable[N];
    begin();
    assert_cuda(cuMemcpyHtoDAsync_v2(a, host, BYTES, s1));
    host[3] = 99; /* a mistake, and it shows */
    assert_cuda(cuStreamSynchronize(s1));
    for (int i = 0; i < N; i++) pageable[i] = 3;
    assert_cuda(cuMemcpyHtoDAsync_v2(b, pageable, BYTES, s1));
    pageable[3] = 99;                                          /* the driver has its own copy */
    assert_cuda(cuMemcpyDtoHAsync_v2(pageable, a, BYTES, s1)); /* waits: the memory is not pinned */
    assert_int_equal(pageable[3], 99);
    assert_cuda(cuMemcpyDtoH_v2(pageable, b, BYTES));
    assert_int_equal(pageable[3], 3);
}

static void events_order_streams(void **state) {
    (void)state;
    CUevent e, timed[2];
    begin();
    assert_cuda(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    assert_cuda(cuEventQuery(e)); /* never recorded: complete */
    assert_cuda(run(increment, a, a, 5, s1));
    assert_cuda(cuEventRecord(e, s1));
    assert_cuda(run(increment, a, a, 100, s1)); /* not covered by the event, and a race with what follows */
    assert_cuda(cuStreamWaitEvent(s2, e, 0));
    assert_cuda(cuMemcpyDtoHAsync_v2(host, a, BYTES, s2));
    assert_cuda(cuStreamSynchronize(s2));
    assert_int_equal(host[0], 6);
    assert_cuda_is(cuStreamSynchronize(s1), CUDA_ERROR_LAUNCH_FAILED);
    assert_report("race between streams");

    begin();
    assert_cuda(cuEventCreate(&e, 0));
    assert_cuda(run(increment, a, a, 5, s1));
    assert_cuda(cuEventRecord(e, s1));
    assert_cuda_is(cuEventQuery(e), CUDA_ERROR_NOT_READY);
    assert_cuda(cuEventSynchronize(e));
    assert_cuda(cuEventQuery(e));
    assert_cuda(run(copy, a, b, 0, s2)); /* the host waited, so this is ordered */
    assert_cuda(cuStreamSynchronize(s2));
    for (int k = 0; k < 2; k++) assert_cuda(cuEventCreate(&timed[k], 0));
    float ms = -1;
    assert_cuda(cuEventRecord(timed[0], s1));
    assert_cuda(run(increment, a, a, 5, s1));
    assert_cuda(cuEventRecord(timed[1], s1));
    assert_cuda_is(cuEventElapsedTime(&ms, timed[0], timed[1]), CUDA_ERROR_NOT_READY);
    assert_cuda(cuEventSynchronize(timed[1]));
    assert_cuda(cuEventElapsedTime(&ms, timed[0], timed[1]));
    assert_true(ms > 0);
    assert_cuda(cuEventDestroy_v2(e));
    assert_cuda_is(cuEventRecord(e, s1), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(ptxsim_report_count(), 0);
}

static void missing_order_between_streams_is_found(void **state) {
    (void)state;
    begin();
    assert_cuda(run(increment, a, a, 5, s1));
    assert_cuda(run(copy, a, b, 0, s2)); /* reads what s1 writes */
    assert_cuda(cuStreamSynchronize(s1));
    assert_cuda_is(cuStreamSynchronize(s2), CUDA_ERROR_LAUNCH_FAILED);
    assert_report("race between streams: read of global");

    begin(); /* a synchronous copy on the default stream does not wait for non-blocking streams */
    uint32_t out[N];
    assert_cuda(run(increment, a, a, 5, s1));
    assert_cuda(cuMemcpyDtoH_v2(out, a, BYTES));
    assert_int_equal(out[0], 1);
    assert_cuda_is(cuStreamSynchronize(s1), CUDA_ERROR_LAUNCH_FAILED);
    assert_report("race between streams");
}

static void default_stream_orders_blocking_streams(void **state) {
    (void)state;
    CUstream blocking;
    uint32_t out[N];
    begin();
    assert_cuda(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    assert_cuda(run(increment, a, a, 5, blocking));
    assert_cuda(run(copy, a, b, 0, NULL));
    assert_cuda(run(increment, b, b, 10, blocking));
    assert_cuda(cuMemcpyDtoH_v2(out, b, BYTES));
    assert_int_equal(out[0], 16);
    assert_cuda(cuStreamSynchronize(NULL));
    assert_cuda(cuStreamDestroy_v2(blocking));
    assert_cuda_is(cuStreamSynchronize(blocking), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(ptxsim_report_count(), 0);
}

/* Work that waits for other work through an event, and then a race: with streams that come and go, and with more alive
 * than there are clocks for. */
static void many_streams(void **state) {
    (void)state;
    enum { ALIVE = 100, TURNS = 300 };
    static CUstream alive[ALIVE];
    CUevent e;
    for (int by_event = 0; by_event < 2; by_event++) {
        begin();
        assert_cuda(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
        for (int i = 0; i < TURNS; i++) {
            CUstream s, t;
            assert_cuda(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
            assert_cuda(cuStreamCreate(&t, CU_STREAM_NON_BLOCKING));
            assert_cuda(run(increment, a, a, 5, s));
            assert_cuda(cuEventRecord(e, s));
            assert_cuda(cuStreamWaitEvent(t, e, 0));
            assert_cuda(run(copy, a, b, 0, t));
            assert_cuda(cuEventRecord(e, t));
            assert_cuda(by_event ? cuEventSynchronize(e) : cuStreamSynchronize(t));
            assert_cuda(cuStreamDestroy_v2(s));
            assert_cuda(cuStreamDestroy_v2(t));
        }
        assert_int_equal(ptxsim_report_count(), 0);
        /* the slots of those are in use again, and a missing order shows as ever */
        CUstream s, t;
        assert_cuda(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
        assert_cuda(cuStreamCreate(&t, CU_STREAM_NON_BLOCKING));
        assert_cuda(run(increment, a, a, 5, s));
        assert_cuda(run(copy, a, b, 0, t));
        assert_cuda(cuStreamSynchronize(s));
        assert_cuda_is(cuStreamSynchronize(t), CUDA_ERROR_LAUNCH_FAILED);
        assert_report("race between streams: read of global");
    }
    begin();
    assert_cuda(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    for (int i = 0; i < ALIVE; i++) {
        assert_cuda(cuStreamCreate(&alive[i], CU_STREAM_NON_BLOCKING));
        if (i) assert_cuda(cuStreamWaitEvent(alive[i], e, 0));
        assert_cuda(run(increment, a, a, 1, alive[i]));
        assert_cuda(cuEventRecord(e, alive[i]));
    }
    assert_cuda(cuEventSynchronize(e));
    assert_cuda(cuMemcpyDtoHAsync_v2(host, a, BYTES, s1));
    assert_cuda(cuStreamSynchronize(s1));
    assert_int_equal(host[0], 1 + ALIVE);
    for (int i = 0; i < ALIVE; i++) assert_cuda(cuStreamDestroy_v2(alive[i]));
    assert_int_equal(ptxsim_report_count(), 0);
}

static void graphs_replay(void **state) {
    (void)state;
    CUgraph g, g2;
    CUgraphExec exec;
    CUgraphNode nodes[8];
    CUdeviceptr p;
    size_t count = 8;
    int status, type;
    begin();
    assert_cuda(cuStreamBeginCapture_v2(s1, CU_STREAM_CAPTURE_MODE_GLOBAL));
    assert_cuda(cuStreamIsCapturing(s1, &status));
    assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    assert_cuda(run(increment, a, a, 1, s1));
    assert_cuda(run(copy, a, b, 0, s1));
    assert_cuda(cuMemcpyDtoHAsync_v2(host, b, BYTES, s1));
    assert_cuda(cuStreamEndCapture(s1, &g));
    assert_int_equal(host[0], 7); /* nothing has run */
    assert_cuda(cuGraphGetNodes(g, NULL, &count));
    assert_int_equal(count, 3);
    assert_cuda(cuGraphGetNodes(g, nodes, &count));
    assert_cuda(cuGraphNodeGetType(nodes[2], &type));
    assert_int_equal(type, CU_GRAPH_NODE_TYPE_MEMCPY);
    assert_cuda(cuGraphInstantiateWithFlags(&exec, g, 0));
    for (int k = 0; k < 3; k++) assert_cuda(cuGraphLaunch(exec, s2));
    assert_cuda(cuStreamSynchronize(s2));
    assert_int_equal(host[0], 4);
    /* Other parameters for one node of the instance. */
    int ten = 10;
    CUDA_KERNEL_NODE_PARAMS params;
    assert_cuda(cuGraphKernelNodeGetParams_v2(nodes[0], &params));
    assert_int_equal(params.blockDimX, N);
    params.kernelParams = (void *[]){&a, &a, &ten};
    assert_cuda(cuGraphExecKernelNodeSetParams_v2(exec, nodes[0], &params));
    assert_cuda(cuGraphLaunch(exec, s2));
    assert_cuda(cuStreamSynchronize(s2));
    assert_int_equal(host[0], 14);
    /* The same shape captured again, then another. */
    CUgraphExecUpdateResultInfo info;
    assert_cuda(cuStreamBeginCapture_v2(s1, CU_STREAM_CAPTURE_MODE_GLOBAL));
    assert_cuda(run(increment, a, a, 100, s1));
    assert_cuda(run(copy, a, b, 0, s1));
    assert_cuda(cuMemcpyDtoHAsync_v2(host, b, BYTES, s1));
    assert_cuda(cuStreamEndCapture(s1, &g2));
    assert_cuda(cuGraphExecUpdate_v2(exec, g2, &info));
    assert_cuda(cuGraphLaunch(exec, s2));
    assert_cuda(cuStreamSynchronize(s2));
    assert_int_equal(host[0], 114);
    assert_cuda(cuGraphDestroy(g2));
    assert_cuda(cuStreamBeginCapture_v2(s1, CU_STREAM_CAPTURE_MODE_GLOBAL));
    assert_cuda(run(copy, a, b, 0, s1));
    assert_cuda(cuStreamEndCapture(s1, &g2));
    assert_cuda_is(cuGraphExecUpdate_v2(exec, g2, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    /* What may not be done while capturing. */
    assert_cuda(cuStreamBeginCapture_v2(s1, CU_STREAM_CAPTURE_MODE_GLOBAL));
    assert_cuda_is(cuMemAlloc_v2(&p, 64), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    assert_cuda_is(run(copy, a, b, 0, s1), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    assert_cuda_is(cuStreamEndCapture(s1, &g2), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    assert_cuda(cuStreamBeginCapture_v2(s1, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    assert_cuda_is(cuStreamSynchronize(s1), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    assert_cuda_is(cuStreamEndCapture(s1, &g2), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    ptxsim_live live;
    ptxsim_get_live(&live);
    assert_int_equal(live.graph_execs, 1);
    assert_cuda(cuGraphExecDestroy(exec));
    assert_int_equal(ptxsim_report_count(), 0);
}

/* Two branches of a captured graph; `join`: whether the second waits for the first where it must. */
static CUresult branches(bool depend) {
    CUgraph g;
    CUgraphExec exec;
    CUevent fork, join;
    assert_cuda(cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING));
    assert_cuda(cuEventCreate(&join, CU_EVENT_DISABLE_TIMING));
    assert_cuda(cuStreamBeginCapture_v2(s1, CU_STREAM_CAPTURE_MODE_GLOBAL));
    assert_cuda(run(increment, b, b, 1, s1));
    assert_cuda(cuEventRecord(fork, s1));
    assert_cuda(cuStreamWaitEvent(s2, fork, 0));
    assert_cuda(run(increment, a, a, 5, s2));
    if (depend) {
        assert_cuda(cuEventRecord(join, s2));
        assert_cuda(cuStreamWaitEvent(s1, join, 0));
    }
    assert_cuda(run(copy, a, b, 0, s1));
    assert_cuda(cuEventRecord(join, s2));
    assert_cuda(cuStreamWaitEvent(s1, join, 0));
    assert_cuda(cuStreamEndCapture(s1, &g));
    assert_cuda(cuGraphInstantiateWithFlags(&exec, g, 0));
    assert_cuda(cuGraphLaunch(exec, s1));
    return cuStreamSynchronize(s1);
}

static void branches_of_graphs(void **state) {
    (void)state;
    uint32_t out[N];
    begin();
    assert_cuda(branches(true));
    assert_cuda(cuMemcpyDtoH_v2(out, b, BYTES));
    assert_int_equal(out[0], 6);
    begin();
    assert_cuda_is(branches(false), CUDA_ERROR_LAUNCH_FAILED);
    assert_report("race between streams");
    /* A branch that does not come back. */
    CUgraph g;
    CUevent fork;
    begin();
    assert_cuda(cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING));
    assert_cuda(cuStreamBeginCapture_v2(s1, CU_STREAM_CAPTURE_MODE_GLOBAL));
    assert_cuda(cuEventRecord(fork, s1));
    assert_cuda(cuStreamWaitEvent(s2, fork, 0));
    assert_cuda(run(increment, a, a, 5, s2));
    assert_cuda_is(cuStreamEndCapture(s2, &g), CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    assert_cuda_is(cuStreamEndCapture(s1, &g), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
}

static void *allocate_in_thread(void *context) {
    CUdeviceptr p;
    assert_cuda(cuCtxSetCurrent(context));
    return (void *)(intptr_t)cuMemAlloc_v2(&p, 64);
}

static void *end_in_thread(void *context) {
    CUgraph g;
    assert_cuda(cuCtxSetCurrent(context));
    return (void *)(intptr_t)cuStreamEndCapture(s1, &g);
}

static CUresult in_thread(void *(*function)(void *)) {
    CUcontext context;
    pthread_t thread;
    void *result = NULL;
    assert_cuda(cuCtxGetCurrent(&context));
    assert_int_equal(pthread_create(&thread, NULL, function, context), 0);
    pthread_join(thread, &result);
    return (CUresult)(intptr_t)result;
}

/* Whom a capture's mode protects from whom. */
static void threads_and_captures(void **state) {
    (void)state;
    CUgraph g;
    CUdeviceptr p;
    begin();
    assert_cuda(cuStreamBeginCapture_v2(s1, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    assert_cuda(in_thread(allocate_in_thread));
    assert_cuda(run(increment, a, a, 1, s1));
    assert_cuda_is(in_thread(end_in_thread), CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
    assert_cuda(cuStreamEndCapture(s1, &g));
    assert_cuda(cuGraphDestroy(g));
    assert_cuda(cuStreamBeginCapture_v2(s1, CU_STREAM_CAPTURE_MODE_GLOBAL));
    assert_cuda_is(in_thread(allocate_in_thread), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    assert_cuda_is(cuStreamEndCapture(s1, &g), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    assert_cuda(cuStreamBeginCapture_v2(s1, CU_STREAM_CAPTURE_MODE_RELAXED));
    assert_cuda(cuMemAlloc_v2(&p, 64));
    assert_cuda(in_thread(end_in_thread));
}

/* Arguments are those of the time of the capture; what a copy reads is that of each replay. */
static void what_replays_read(void **state) {
    (void)state;
    static uint32_t pageable[N];
    CUgraph g;
    CUgraphExec exec;
    CUevent e;
    int by = 1;
    begin();
    for (int i = 0; i < N; i++) pageable[i] = 5;
    assert_cuda(cuStreamBeginCapture_v2(s1, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    assert_cuda(cuMemcpyHtoDAsync_v2(a, pageable, BYTES, s1));
    assert_cuda(cuLaunchKernel(copy, 1, 1, 1, N, 1, 1, 0, s1, (void *[]){&a, &b, &by}, NULL));
    by = 1000;
    assert_cuda(cuMemcpyDtoHAsync_v2(host, b, BYTES, s1));
    assert_cuda(cuStreamEndCapture(s1, &g));
    ptxsim_inject(PTXSIM_FAULT_GRAPH, 1);
    assert_cuda_is(cuGraphInstantiateWithFlags(&exec, g, 0), CUDA_ERROR_OUT_OF_MEMORY);
    assert_cuda(cuGraphInstantiateWithFlags(&exec, g, 0));
    assert_cuda(cuGraphDestroy(g)); /* the instance lives on */
    uint64_t launches = ptxsim_get_calls("cuGraphLaunch"), all = ptxsim_get_calls(NULL);
    for (uint32_t round = 0; round < 3; round++) {
        for (int i = 0; i < N; i++) pageable[i] = 10 * round;
        assert_cuda(cuGraphLaunch(exec, s1));
        if (round == 2) assert_cuda(cuGraphExecDestroy(exec)); /* it ends when it is done */
        assert_cuda(cuStreamSynchronize(s1));
        assert_int_equal(host[0], 10 * round + 1);
    }
    assert_int_equal(ptxsim_get_calls("cuGraphLaunch") - launches, 3);
    assert_int_equal(ptxsim_get_calls(NULL) - all, 7);
    assert_cuda_is(cuGraphLaunch(exec, s1), CUDA_ERROR_INVALID_HANDLE);
    /* Work outside of the capture may not be waited for. */
    assert_cuda(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    assert_cuda(run(increment, a, a, 1, s2));
    assert_cuda(cuEventRecord(e, s2));
    assert_cuda(cuStreamBeginCapture_v2(s1, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    assert_cuda_is(cuStreamWaitEvent(s1, e, 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    assert_cuda_is(cuStreamEndCapture(s1, &g), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    assert_int_equal(ptxsim_report_count(), 0);
}

static void other_calls(void **state) {
    (void)state;
    begin();
    int v, n;
    size_t bytes, total;
    char name[64];
    CUdeviceptr p, base;
    void *entry;
    const char *text;
    assert_cuda(cuDriverGetVersion(&v));
    assert_int_equal(v, 12080);
    assert_cuda(cuDeviceGetCount(&n));
    assert_int_equal(n, 1);
    assert_cuda(cuDeviceGetName(name, sizeof name, 0));
    assert_cuda(cuDeviceGetAttribute(&v, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
    assert_int_equal(v, 132);
    assert_cuda(cuDeviceGetAttribute(&v, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 0));
    assert_int_equal(v, 227 * 1024);
    assert_cuda_is(cuDeviceGetAttribute(&v, 16, 3), CUDA_ERROR_INVALID_DEVICE);
    assert_cuda(cuMemGetInfo_v2(&bytes, &total));
    assert_int_equal(total - bytes, 2 * BYTES);
    assert_cuda(cuMemGetAddressRange_v2(&base, &bytes, a + 5));
    assert_true(base == a && bytes == BYTES);
    assert_cuda(cuPointerGetAttribute(&v, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, a));
    assert_int_equal(v, CU_MEMORYTYPE_DEVICE);
    assert_cuda(cuPointerGetAttribute(&v, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)(uintptr_t)host));
    assert_int_equal(v, CU_MEMORYTYPE_HOST);
    assert_cuda(cuMemHostGetDevicePointer_v2(&p, host, 0));
    assert_cuda(run(increment, p, p, 1, s1)); /* a kernel on pinned memory */
    assert_cuda(cuStreamSynchronize(s1));
    assert_int_equal(host[0], 8);
    assert_cuda(cuMemsetD16_v2(a, 0x1234, 2 * N));
    assert_cuda(cuMemcpyDtoD_v2(b, a, BYTES));
    assert_cuda(cuMemcpy((CUdeviceptr)(uintptr_t)host, b, BYTES));
    assert_int_equal(host[N - 1], 0x12341234);
    assert_cuda(cuGetProcAddress_v2("cuMemAlloc", &entry, 12000, 0, &v));
    assert_ptr_equal(entry, (void *)(uintptr_t)cuMemAlloc_v2);
    assert_cuda_is(cuGetProcAddress_v2("cuNothing", &entry, 12000, 0, NULL), CUDA_ERROR_NOT_FOUND);
    assert_cuda(cuGetErrorName(700, &text));
    assert_string_equal(text, "CUDA_ERROR_ILLEGAL_ADDRESS");
    static uint32_t own[N];
    assert_cuda(cuMemHostRegister_v2(own, sizeof own, 0));
    assert_cuda_is(cuMemHostRegister_v2(own, sizeof own, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    assert_cuda(cuMemHostUnregister(own));
    CUcontext c;
    assert_cuda(cuCtxGetCurrent(&c));
    assert_cuda(cuCtxPopCurrent_v2(&c));
    assert_cuda_is(cuMemAlloc_v2(&p, 4), CUDA_ERROR_INVALID_CONTEXT);
    assert_cuda(cuCtxPushCurrent_v2(c));
    assert_cuda(cuMemAllocAsync(&p, 64, s1));
    assert_cuda(cuMemFreeAsync(p, s1));
    ptxsim_live live;
    ptxsim_get_live(&live);
    assert_int_equal(live.device_allocations, 3);
    assert_cuda(cuStreamSynchronize(s1));
    ptxsim_get_live(&live);
    assert_int_equal(live.device_allocations, 2);
    assert_int_equal(live.host_allocations, 1);
    assert_int_equal(live.streams, 2);
    assert_int_equal(live.modules, 1);
    CUdeviceptr fresh = device_alloc(64);
    assert_cuda_is(cuMemcpyDtoH_v2(own, fresh, 64), CUDA_ERROR_LAUNCH_FAILED);
    assert_report("never written");
    ptxsim_restart();
    assert_int_equal(cuDeviceGetCount(&n), CUDA_ERROR_NOT_INITIALIZED);
}

int main(void) {
    setenv("PTXSIM_MEMORY_MIB", "256", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(work_happens_when_waited_for),
        cmocka_unit_test(pinned_sources_are_read_late),
        cmocka_unit_test(events_order_streams),
        cmocka_unit_test(missing_order_between_streams_is_found),
        cmocka_unit_test(default_stream_orders_blocking_streams),
        cmocka_unit_test(many_streams),
        cmocka_unit_test(graphs_replay),
        cmocka_unit_test(branches_of_graphs),
        cmocka_unit_test(threads_and_captures),
        cmocka_unit_test(what_replays_read),
        cmocka_unit_test(other_calls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
