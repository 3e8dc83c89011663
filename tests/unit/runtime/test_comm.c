/* SPDX-License-Identifier: MIT
 * Communicators: each collective on 1 to 5 ranks, sums in the order of ranks, and what all ranks are told where one of
 * them calls something else, gives up, stalls or is killed. */
#include "harness/check.h"
#include "harness/patience.h"
#include "harness/port.h"

#include "ir/support/clock.h"
#include "ir/support/context.h"
#include "ir/support/element.h"
#include "runtime/comm/comm.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_RANKS = 5, BIG = 300001 };

typedef struct rank {
    tcc_context *cx;
    tcc_comm *comm;
    pthread_t thread;
    void (*body)(struct rank *);
    int number, size;
    tcc_status status; /* of the last call */
    char text[2048];   /* its error */
    const char *fault; /* NULL: all was right */
    int64_t count;     /* for the body */
    float kept[64];    /* what outlives it */
} rank;

static void *run_rank(void *user) {
    rank *r = user;
    r->body(r);
    if (r->status != TCC_OK) snprintf(r->text, sizeof r->text, "%s", tcc_context_error(r->cx));
    return NULL;
}

static void make(rank *ranks, int size) {
    tcc_context *contexts[MOST_RANKS] = {NULL};
    tcc_comm *comms[MOST_RANKS] = {NULL};
    for (int r = 0; r < size; r++) assert_int_equal(tcc_context_create(&contexts[r]), TCC_OK);
    assert_int_equal(tcc_comm_create_local(contexts, size, comms), TCC_OK);
    for (int r = 0; r < size; r++) {
        ranks[r] = (rank){.cx = contexts[r], .comm = comms[r], .number = r, .size = size};
        tcc_comm_set_timeout(comms[r], test_seconds(30));
        assert_int_equal(tcc_comm_rank(comms[r]), r);
        assert_int_equal(tcc_comm_size(comms[r]), size);
    }
}

static void drop(rank *ranks, int size) {
    for (int r = 0; r < size; r++) {
        tcc_comm_destroy(ranks[r].comm);
        tcc_context_destroy(ranks[r].cx);
    }
}

/* `body` on each rank, in a thread of its own. */
static void run_all(rank *ranks, int size, void (*body)(rank *)) {
    for (int r = 0; r < size; r++) {
        ranks[r].body = body;
        assert_int_equal(pthread_create(&ranks[r].thread, NULL, run_rank, &ranks[r]), 0);
    }
    for (int r = 0; r < size; r++) pthread_join(ranks[r].thread, NULL);
}

static void check_all(const rank *ranks, int size) {
    for (int r = 0; r < size; r++)
        if (ranks[r].status != TCC_OK || ranks[r].fault)
            fail_msg("rank %d of %d: %s: %s", r, size, ranks[r].fault ? ranks[r].fault : "", ranks[r].text);
}

#define CALL(r, call)                      \
    do {                                   \
        (r)->status = (call);              \
        if ((r)->status != TCC_OK) return; \
    } while (0)
#define CHECK(r, is)                 \
    do {                             \
        if (!(is)) (r)->fault = #is; \
    } while (0)

/* -- Values -- */

/* Element i of rank r: of such sizes that the order of a sum is seen in its bits. */
static double value(tcc_dtype type, int r, int64_t i) {
    static const double wide[] = {1e8, 1, -1e8, 3.25, 1e-3};
    if (tcc_dtype_is_float(type) && type != TCC_F16) return wide[(r * 3 + i) % 5] * (double)(1 + i % 7);
    if (type == TCC_F16) return (r * 3 + (int)(i % 5)) % 5 * 0.37 + (i % 3 == r ? 1000 : 0);
    if (type == TCC_BOOL) return (i >> r) & 1;
    return (double)((i * 7 + r * 50) % 120);
}

static double combined(tcc_dtype type, tcc_comm_op how, int size, int64_t i) {
    char all[8] = {0}, x[8] = {0};
    tcc_element_set(type, all, 0, value(type, 0, i));
    for (int r = 1; r < size; r++) {
        tcc_element_set(type, x, 0, value(type, r, i));
        const double a = tcc_element_get(type, all, 0), b = tcc_element_get(type, x, 0);
        const double sum = type == TCC_F32 ? (double)((float)a + (float)b) : a + b;
        const double y = how == TCC_COMM_SUM ? sum : how == TCC_COMM_MAX ? fmax(a, b) : fmin(a, b);
        if (tcc_dtype_is_float(type)) tcc_element_set(type, all, 0, y);
        else tcc_element_set_int(type, all, 0, (int64_t)y);
    }
    return tcc_element_get(type, all, 0);
}

static void fill(const rank *r, tcc_dtype type, void *to, int64_t first, int64_t count) {
    for (int64_t i = 0; i < count; i++) tcc_element_set(type, to, i, value(type, r->number, first + i));
}

static void reduce_all_types(rank *r) {
    static const int64_t counts[] = {0, 1, 2, 3, 7, 64, 1001};
    char data[1001 * 8], out[1001 * 8];
    for (int t = 0; t < TCC_DTYPE_COUNT; t++)
        for (int how = TCC_COMM_SUM; how <= TCC_COMM_MIN; how++)
            for (int k = 0; k < (int)(sizeof counts / sizeof *counts); k++) {
                const tcc_dtype type = (tcc_dtype)t;
                const int64_t n = counts[k], each = n / r->size;
                fill(r, type, data, 0, n);
                CALL(r, tcc_comm_all_reduce(r->comm, (tcc_comm_op)how, type, data, n));
                for (int64_t i = 0; i < n; i++)
                    CHECK(r, tcc_element_get(type, data, i) == combined(type, (tcc_comm_op)how, r->size, i));
                fill(r, type, data, 0, n);
                CALL(r, tcc_comm_reduce_scatter(r->comm, (tcc_comm_op)how, type, data, out, each));
                for (int64_t i = 0; i < each; i++)
                    CHECK(r, tcc_element_get(type, out, i) ==
                                 combined(type, (tcc_comm_op)how, r->size, r->number * each + i));
            }
}

static void copy_all(rank *r) {
    char mine[9], all[9 * MOST_RANKS];
    memset(mine, 'a' + r->number, sizeof mine);
    for (int64_t bytes = 0; bytes <= 9; bytes += 3) {
        CALL(r, tcc_comm_all_gather(r->comm, mine, all, bytes));
        for (int64_t i = 0; i < bytes * r->size; i++) CHECK(r, all[i] == 'a' + i / bytes);
    }
    for (int root = 0; root < r->size; root++) {
        memset(mine, 'a' + r->number, sizeof mine);
        CALL(r, tcc_comm_broadcast(r->comm, root, mine, 5));
        CHECK(r, mine[0] == 'a' + root && mine[4] == 'a' + root && mine[5] == 'a' + r->number);
    }
}

/* More than sockets hold, both ways. */
static void reduce_much(rank *r) {
    float *x = malloc(BIG * sizeof *x);
    if (!x) return;
    fill(r, TCC_F32, x, 0, BIG);
    r->status = tcc_comm_all_reduce(r->comm, TCC_COMM_SUM, TCC_F32, x, BIG);
    for (int64_t i = 0; i < BIG && r->status == TCC_OK; i += 97)
        CHECK(r, (double)x[i] == combined(TCC_F32, TCC_COMM_SUM, r->size, i));
    free(x);
}

/* From now on this thread cannot read the memory of other processes. */
static bool forbid_reading(void) {
    struct sock_filter lines[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog filter = {sizeof lines / sizeof *lines, lines};
    return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) && !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
}

/* Every other rank gets its data through the sockets. */
static void reduce_much_apart(rank *r) {
    if (r->number % 2 && !forbid_reading()) print_message("no filters of system calls here: nothing is forbidden\n");
    reduce_much(r);
    if (r->status == TCC_OK) reduce_much(r);
}

static void test_much_data_goes_either_way(void **state) {
    (void)state;
    for (int direct = 0; direct < 2; direct++) {
        rank ranks[MOST_RANKS];
        if (!direct) setenv("TCC_COMM_DIRECT", "0", 1);
        make(ranks, 3);
        unsetenv("TCC_COMM_DIRECT");
        run_all(ranks, 3, direct ? reduce_much_apart : reduce_much);
        check_all(ranks, 3);
        drop(ranks, 3);
    }
}

static void test_each_collective(void **state) {
    (void)state;
    for (int size = 1; size <= MOST_RANKS; size++) {
        rank ranks[MOST_RANKS];
        make(ranks, size);
        run_all(ranks, size, reduce_all_types);
        check_all(ranks, size);
        run_all(ranks, size, copy_all);
        check_all(ranks, size);
        run_all(ranks, size, reduce_much);
        check_all(ranks, size);
        drop(ranks, size);
    }
}

static void reduce_nan(rank *r) {
    for (int how = TCC_COMM_SUM; how <= TCC_COMM_MIN; how++)
        for (int who = 0; who < r->size; who++) {
            float x[3] = {1, r->number == who ? NAN : 2, 3};
            CALL(r, tcc_comm_all_reduce(r->comm, (tcc_comm_op)how, TCC_F32, x, 3));
            CHECK(r, isnan(x[1]) && !isnan(x[0]) && !isnan(x[2]));
        }
}

static void test_a_nan_wins(void **state) {
    (void)state;
    rank ranks[3];
    make(ranks, 3);
    run_all(ranks, 3, reduce_nan);
    check_all(ranks, 3);
    drop(ranks, 3);
}

static atomic_int arrived;

static void meet(rank *r) {
    for (int i = 1; i <= 50; i++) {
        atomic_fetch_add(&arrived, 1);
        CALL(r, tcc_comm_barrier(r->comm));
        CHECK(r, atomic_load(&arrived) >= i * r->size);
    }
}

static void test_nobody_leaves_a_barrier_early(void **state) {
    (void)state;
    rank ranks[4];
    make(ranks, 4);
    run_all(ranks, 4, meet);
    check_all(ranks, 4);
    drop(ranks, 4);
}

/* More than the queue holds, in one another's data: so their order is seen. */
static void reduce_while_computing(rank *r) {
    enum { COUNT = 1001, TIMES = 300 };
    static const double scale = 0.25;
    float x[COUNT], gathered[MOST_RANKS * 2], part = 0, each[MOST_RANKS];
    int64_t first = 0, last = 0, gather = 0, scatter = 0;
    for (int i = 0; i < COUNT; i++) x[i] = (float)(r->number + i) * scale;
    for (int i = 0; i < MOST_RANKS; i++) each[i] = (float)(i * r->number);
    CALL(r, tcc_comm_start_all_reduce(r->comm, TCC_COMM_SUM, TCC_F32, x, COUNT, &first));
    for (int i = 0; i < TIMES; i++)
        CALL(r, tcc_comm_start_all_reduce(r->comm, TCC_COMM_MAX, TCC_F32, x + i, COUNT - i, &last));
    CALL(r, tcc_comm_start_all_gather(r->comm, x, gathered, 2 * sizeof *x, &gather));
    CALL(r, tcc_comm_start_reduce_scatter(r->comm, TCC_COMM_SUM, TCC_F32, each, &part, 1, &scatter));
    CALL(r, tcc_comm_wait(r->comm, last));
    CALL(r, tcc_comm_wait(r->comm, first)); /* it was done long ago */
    const int n = r->size, ranks = n * (n - 1) / 2;
    for (int i = 0; i < COUNT; i++) CHECK(r, x[i] == (float)(ranks + n * i) * scale);
    float y = 1;
    CALL(r, tcc_comm_all_reduce(r->comm, TCC_COMM_SUM, TCC_F32, &y, 1)); /* after all that were started */
    CHECK(r, y == (float)n);
    for (int i = 0; i < n; i++) CHECK(r, gathered[2 * i] == x[0] && gathered[2 * i + 1] == x[1]);
    CHECK(r, part == (float)(r->number * ranks));
    CALL(r, tcc_comm_wait(r->comm, gather));
    CALL(r, tcc_comm_wait(r->comm, scatter));
    CHECK(r, tcc_comm_wait(r->comm, scatter + 1) == TCC_EINVAL);
    CHECK(r, tcc_comm_wait(r->comm, -1) == TCC_EINVAL);
    CALL(r, tcc_comm_start_all_reduce(r->comm, TCC_COMM_SUM, TCC_F32, r->kept, 64, &last)); /* its end waits */
}

static void test_collectives_are_started_and_awaited(void **state) {
    (void)state;
    for (int size = 1; size <= MOST_RANKS; size += 2) {
        rank ranks[MOST_RANKS];
        make(ranks, size);
        for (int r = 0; r < size; r++) assert_int_equal(tcc_comm_wait(ranks[r].comm, 0), TCC_EINVAL);
        run_all(ranks, size, reduce_while_computing);
        check_all(ranks, size);
        drop(ranks, size);
    }
}

/* -- Faults -- */

/* What rank 2 of 3 does instead of the all_reduce of 10 floats. */
static void call_alike(rank *r) {
    float x[10] = {0};
    CALL(r, tcc_comm_all_reduce(r->comm, TCC_COMM_SUM, TCC_F32, x, 10));
}
static void call_another_size(rank *r) {
    float x[10] = {0};
    CALL(r, tcc_comm_all_reduce(r->comm, TCC_COMM_SUM, TCC_F32, x, r->number == 2 ? 9 : 10));
}
static void call_another_collective(rank *r) {
    char x[10] = {0};
    if (r->number != 2) call_alike(r);
    else CALL(r, tcc_comm_broadcast(r->comm, 2, x, 10));
}
static void call_nonsense(rank *r) {
    float x[10] = {0};
    if (r->number != 2) call_alike(r);
    else CALL(r, tcc_comm_all_reduce(r->comm, (tcc_comm_op)7, TCC_F32, x, 10));
}
static void start_another_size(rank *r) {
    float x[10] = {0}, y[4] = {0};
    int64_t first = 0, second = 0;
    CALL(r, tcc_comm_start_all_reduce(r->comm, TCC_COMM_SUM, TCC_F32, x, r->number == 2 ? 9 : 10, &first));
    CALL(r, tcc_comm_start_all_reduce(r->comm, TCC_COMM_SUM, TCC_F32, y, 4, &second));
    CHECK(r, tcc_comm_wait(r->comm, second) != TCC_OK);
    CALL(r, tcc_comm_wait(r->comm, first));
}
static void start_and_give_up(rank *r) {
    float x[10] = {0};
    int64_t first = 0, second = 0;
    CALL(r, tcc_comm_start_all_reduce(r->comm, TCC_COMM_SUM, TCC_F32, x, 10, &first));
    if (r->number == 2) tcc_comm_abort(r->comm, "the disk is full");
    else CALL(r, tcc_comm_start_all_reduce(r->comm, TCC_COMM_SUM, TCC_F32, x, 10, &second));
    CALL(r, tcc_comm_wait(r->comm, first)); /* that is done on all */
    CALL(r, tcc_comm_wait(r->comm, r->number == 2 ? first : second));
    CHECK(r, r->number == 2);
    call_alike(r);
}
static void give_up(rank *r) {
    if (r->number == 2) tcc_comm_abort(r->comm, "the disk is full");
    call_alike(r);
}
static void go(rank *r) {
    if (r->number != 2) {
        call_alike(r);
        return;
    }
    tcc_comm_destroy(r->comm);
    r->comm = NULL;
}
static void stall(rank *r) {
    tcc_comm_set_timeout(r->comm, 0.1);
    if (r->number != 2) call_alike(r);
}

static void expect_on(rank *ranks, int r, tcc_status status, const char *text) {
    if (ranks[r].status != status || !strstr(ranks[r].text, text))
        fail_msg("rank %d: %s '%s', not %s '%s'", r, tcc_status_name(ranks[r].status), ranks[r].text,
                 tcc_status_name(status), text);
}

static void test_faults_are_told(void **state) {
    (void)state;
    static const struct {
        void (*body)(rank *);
        tcc_status status;
        const char *on_others, *on_itself;
    } cases[] = {
        {call_another_size, TCC_EINVAL, "calls all_reduce (sum) of 10 f32, but rank 2 calls all_reduce (sum) of 9 f32",
         "rank 2 calls all_reduce (sum) of 9 f32, but rank 0 calls all_reduce (sum) of 10 f32"},
        {call_another_collective, TCC_EINVAL, "but rank 2 calls broadcast of 10 bytes from rank 2",
         "but rank 0 calls all_reduce (sum) of 10 f32"},
        {call_nonsense, TCC_EIO, "rank 2 gave up: all_reduce: no type 1 or no reduction 7", "no reduction 7"},
        {start_another_size, TCC_EINVAL, "rank 2 calls all_reduce (sum) of 9 f32",
         "rank 2 calls all_reduce (sum) of 9"},
        {start_and_give_up, TCC_EIO, "rank 2 gave up: the disk is full", "failed before: the disk is full"},
        {give_up, TCC_EIO, "all_reduce, collective 1, on rank ", "failed before: the disk is full"},
        {give_up, TCC_EIO, " of 3: rank 2 gave up: the disk is full", ""},
        {go, TCC_EIO, "rank 2 is gone: it ended, or the connection to it broke", NULL},
        {stall, TCC_EIO, "rank 2 did not answer within 0.1 s", NULL},
    };
    for (int i = 0; i < (int)(sizeof cases / sizeof *cases); i++) {
        rank ranks[3];
        make(ranks, 3);
        run_all(ranks, 3, call_alike); /* collective 0 */
        check_all(ranks, 3);
        run_all(ranks, 3, cases[i].body);
        for (int r = 0; r < 2; r++) /* in a race the other one tells it */
            expect_on(ranks, r, cases[i].status, cases[i].on_others);
        if (cases[i].on_itself)
            expect_on(ranks, 2, cases[i].status == TCC_EINVAL ? TCC_EINVAL : ranks[2].status, cases[i].on_itself);
        run_all(ranks, 2, call_alike); /* from now on it is an error at once */
        for (int r = 0; r < 2; r++) expect_on(ranks, r, cases[i].status, "the communicator failed before: ");
        drop(ranks, 3);
    }
}

/* -- Work -- */

/* Longer than the time limit. */
static void work(double seconds) { usleep((unsigned)(1e6 * seconds)); }

static double limit; /* of collectives */

/* Ranks 0 and 2 work twice, one of them for longer. */
static void call_after_work(rank *r) {
    double sum = 0;
    tcc_comm_set_timeout(r->comm, limit);
    for (int turn = 0; turn < 2; turn++) {
        int64_t request;
        if (r->number != 1) {
            CALL(r, tcc_comm_begin_work(r->comm));
            CALL(r, tcc_comm_begin_work(r->comm)); /* it is at work already */
            work(r->number ? 0.3 * limit : 1.3 * limit);
        }
        double x = r->number + 1;
        if (turn) CALL(r, tcc_comm_all_reduce(r->comm, TCC_COMM_SUM, TCC_F64, &x, 1));
        else {
            CALL(r, tcc_comm_start_all_reduce(r->comm, TCC_COMM_SUM, TCC_F64, &x, 1, &request));
            CALL(r, tcc_comm_wait(r->comm, request));
        }
        sum += x;
    }
    CHECK(r, sum == 12);
    CALL(r, tcc_comm_begin_work(r->comm)); /* no call follows */
}

static void work_or_call(rank *r) {
    if (r->number == 2) CALL(r, tcc_comm_begin_work(r->comm));
    if (r->number == 2) work(0.5 * limit);
    if (r->number == 2) tcc_comm_abort(r->comm, "the work went wrong");
    call_alike(r);
}

static void test_ranks_at_work_are_waited_for(void **state) {
    (void)state;
    rank ranks[3];
    limit = test_seconds(0.15);
    make(ranks, 3);
    run_all(ranks, 3, call_after_work);
    check_all(ranks, 3);
    drop(ranks, 3);
    make(ranks, 3);
    run_all(ranks, 3, work_or_call);
    for (int r = 0; r < 2; r++) expect_on(ranks, r, TCC_EIO, "rank 2 gave up: the work went wrong");
    drop(ranks, 3);
}

static void call_in_time(rank *r) {
    tcc_comm_set_timeout(r->comm, limit);
    call_alike(r);
}

/* Three ranks, of which the last is a process of its own: there it is 0. Each process keeps its own ends. */
static pid_t make_with_process(rank ranks[3]) {
    make(ranks, 3);
    const pid_t child = fork();
    assert_true(child >= 0);
    for (int r = 0; r < 3; r++) {
        if ((r == 2) == !child) continue;
        tcc_comm_destroy(ranks[r].comm);
        ranks[r].comm = NULL;
    }
    return child;
}

/* Rank 2 is a process at work that is killed or stopped; and one that others miss while they are at work. */
static void test_ends_of_work_are_seen(void **state) {
    (void)state;
    limit = test_seconds(0.15);
    for (int run = 0; run < 3; run++) {
        rank ranks[3];
        const pid_t child = make_with_process(ranks);
        if (!child) {
            tcc_comm_set_timeout(ranks[2].comm, limit);
            if (run < 2 && tcc_comm_begin_work(ranks[2].comm) != TCC_OK) _exit(1);
            for (;;) pause();
        }
        for (int r = 0; r < 2; r++) {
            tcc_comm_set_timeout(ranks[r].comm, limit);
            if (run == 2) assert_int_equal(tcc_comm_begin_work(ranks[r].comm), TCC_OK);
            ranks[r].body = call_in_time;
            if (run < 2) assert_int_equal(pthread_create(&ranks[r].thread, NULL, run_rank, &ranks[r]), 0);
        }
        work(1.2 * limit);
        kill(child, run ? SIGSTOP : SIGKILL);
        for (int r = 0; r < 2; r++)
            if (run < 2) pthread_join(ranks[r].thread, NULL);
        if (run == 2) run_all(ranks, 2, call_in_time);
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        int seen = 0; /* the other one may hear it from the first */
        for (int r = 0; r < 2; r++) {
            assert_int_equal(ranks[r].status, TCC_EIO);
            seen += strstr(ranks[r].text, run ? "rank 2 did not answer within " : "rank 2 is gone") != NULL;
        }
        if (!seen) fail_msg("run %d: %s", run, ranks[0].text);
        drop(ranks, 3);
    }
}

static void reduce_until_error(rank *r) {
    float *x = calloc(BIG, sizeof *x);
    while (x && r->status == TCC_OK) r->status = tcc_comm_all_reduce(r->comm, TCC_COMM_SUM, TCC_F32, x, BIG);
    free(x);
}

/* Rank 2 is a process that is killed at some moment, in the midst of data or between collectives. */
static void test_a_killed_process_is_seen(void **state) {
    (void)state;
    for (int run = 0; run < 6; run++) {
        rank ranks[3];
        const pid_t child = make_with_process(ranks);
        if (!child) {
            reduce_until_error(&ranks[2]);
            _exit(0);
        }
        for (int r = 0; r < 2; r++) {
            ranks[r].body = reduce_until_error;
            assert_int_equal(pthread_create(&ranks[r].thread, NULL, run_rank, &ranks[r]), 0);
        }
        usleep(3000 + 1700 * (unsigned)run);
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        for (int r = 0; r < 2; r++) pthread_join(ranks[r].thread, NULL);
        int seen = 0; /* the other one may hear it from the first */
        for (int r = 0; r < 2; r++) {
            assert_int_equal(ranks[r].status, TCC_EIO);
            seen += strstr(ranks[r].text, "rank 2 is gone") != NULL;
        }
        assert_true(seen >= 1);
        drop(ranks, 3);
    }
}

static void test_wrong_numbers_of_ranks(void **state) {
    (void)state;
    tcc_context *cx;
    tcc_comm *comm;
    assert_int_equal(tcc_context_create(&cx), TCC_OK);
    for (int ranks = -1; ranks <= 0; ranks++) {
        assert_int_equal(tcc_comm_create_local(&cx, ranks, &comm), TCC_EINVAL);
        assert_non_null(strstr(tcc_context_error(cx), "ranks: 1 to 1024 are possible"));
    }
    assert_int_equal(tcc_comm_create_local(&cx, TCC_COMM_MOST_RANKS + 1, &comm), TCC_EINVAL);
    tcc_context_destroy(cx);
}

/* -- Ranks that find each other by the environment -- */

static void set_number(const char *name, int value) {
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    setenv(name, text, 1);
}

/* A stranger at the place where the ranks meet, who says something else and stays until it is hung up on. */
static void disturb(int port) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    char end;
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int s = socket(AF_INET, SOCK_STREAM, 0);
    for (int i = 0; i < 500 && connect(s, (struct sockaddr *)&a, sizeof a); i++) usleep(10000);
    static const char text[] = "GET / HTTP/1.1\r\nHost: here\r\n\r\n";
    if (send(s, text, sizeof text, MSG_NOSIGNAL) == sizeof text) (void)!recv(s, &end, 1, 0);
    close(s);
}

/* In a process of its own: what `rank` of `size` finds. 0: a sum as it must be; 1: an error that says `text`. */
static pid_t start_apart(int rank, int size, int port, const char *text) {
    const pid_t child = fork();
    if (child) return child;
    tcc_context *cx;
    tcc_comm *comm;
    float x[1000];
    set_number("RANK", rank);
    set_number("WORLD_SIZE", size);
    set_number("MASTER_PORT", port);
    setenv("MASTER_ADDR", "localhost", 1);
    if (tcc_context_create(&cx) != TCC_OK) _exit(2);
    for (int i = 0; i < 1000; i++) x[i] = (float)(i + rank);
    tcc_status status = tcc_comm_create(cx, "env", &comm);
    if (status == TCC_OK && (tcc_comm_rank(comm) != rank || tcc_comm_size(comm) != size)) _exit(3);
    if (status == TCC_OK) status = tcc_comm_all_reduce(comm, TCC_COMM_SUM, TCC_F32, x, 1000);
    if (status == TCC_OK) status = tcc_comm_barrier(comm);
    if (status != TCC_OK) {
        const bool said = text && strstr(tcc_context_error(cx), text);
        if (!said) fprintf(stderr, "rank %d: %s\n", rank, tcc_context_error(cx));
        _exit(said ? 1 : 4);
    }
    for (int i = 0; i < 1000; i++)
        if (x[i] != (float)(size * i + size * (size - 1) / 2)) _exit(5);
    tcc_comm_destroy(comm);
    tcc_context_destroy(cx);
    _exit(0);
}

static void expect_end(pid_t child, int expected) {
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), expected);
}

static void test_ranks_meet(void **state) {
    (void)state;
    set_number("TCC_COMM_TIMEOUT", (int)test_seconds(30));
    for (int size = 1; size <= 4; size++) {
        const int port = test_free_port();
        pid_t children[4], stranger = 0;
        for (int r = size - 1; r >= 0; r--) children[r] = start_apart(r, size, port, NULL); /* the first comes last */
        if (size == 4 && !(stranger = fork())) {
            disturb(port);
            _exit(0);
        }
        for (int r = 0; r < size; r++) expect_end(children[r], 0);
        if (stranger) expect_end(stranger, 0);
    }
}

static void test_ranks_that_do_not_meet(void **state) {
    (void)state;
    set_number("TCC_COMM_TIMEOUT", 1);
    int port = test_free_port();
    pid_t a = start_apart(0, 3, port, "rank 1 did not come to localhost:");
    pid_t b = start_apart(2, 3, port, "has not said within 1 s where the others are, or is gone");
    expect_end(a, 1);
    expect_end(b, 1);
    expect_end(start_apart(1, 2, test_free_port(), "rank 0 did not listen at localhost:"), 1);
    expect_end(start_apart(2, 2, port, "RANK is \"2\", not a number from 0 to 1"), 1);
    set_number("TCC_COMM_TIMEOUT", (int)test_seconds(10));
    port = test_free_port();
    a = start_apart(0, 3, port, "another process came as rank 1 of 3: each of the ranks 0 to 2 may come once");
    b = start_apart(1, 3, port, "or is gone");
    const pid_t c = start_apart(1, 3, port, "or is gone");
    expect_end(a, 1);
    expect_end(b, 1);
    expect_end(c, 1);
    tcc_context *cx;
    tcc_comm *comm;
    assert_int_equal(tcc_context_create(&cx), TCC_OK);
    assert_int_equal(tcc_comm_create(cx, "env", &comm), TCC_ENOTFOUND);
    assert_non_null(strstr(tcc_context_error(cx), "the environment has no WORLD_SIZE"));
    assert_int_equal(tcc_comm_create(cx, "smoke", &comm), TCC_EINVAL);
    tcc_context_destroy(cx);
}

/* -- Networks -- */

static void measure(rank *r) {
    CALL(r, tcc_comm_find_network(r->comm)); /* that of one machine is known */
    CHECK(r, !memcmp(tcc_comm_network(r->comm), tcc_network_local, sizeof *tcc_network_local));
    CALL(r, tcc_comm_measure_network(r->comm));
    r->kept[0] = (float)tcc_comm_network(r->comm)->latency_ns;
    r->kept[1] = (float)tcc_comm_network(r->comm)->bytes_a_ns;
}

static bool is_power_of_4(double x) { return fabs(log2(x) / 2 - round(log2(x) / 2)) < 1e-6; }

static void test_a_network_is_measured(void **state) {
    (void)state;
    rank ranks[3];
    for (int size = 1; size <= 3; size++) {
        make(ranks, size);
        run_all(ranks, size, measure);
        check_all(ranks, size);
        for (int r = 0; r < size; r++) assert_memory_equal(ranks[r].kept, ranks[0].kept, 2 * sizeof(float));
        drop(ranks, size);
        const double latency_ns = ranks[0].kept[0], bytes_a_ns = ranks[0].kept[1];
        assert_true(is_power_of_4(latency_ns / tcc_network_local->latency_ns));
        assert_true(is_power_of_4(bytes_a_ns / tcc_network_local->bytes_a_ns));
        assert_true(latency_ns > 10 && bytes_a_ns < 1e4); /* no message is faster */
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_network_is_measured),
        cmocka_unit_test(test_each_collective),
        cmocka_unit_test(test_much_data_goes_either_way),
        cmocka_unit_test(test_a_nan_wins),
        cmocka_unit_test(test_nobody_leaves_a_barrier_early),
        cmocka_unit_test(test_collectives_are_started_and_awaited),
        cmocka_unit_test(test_faults_are_told),
        cmocka_unit_test(test_ranks_at_work_are_waited_for),
        cmocka_unit_test(test_ends_of_work_are_seen),
        cmocka_unit_test(test_a_killed_process_is_seen),
        cmocka_unit_test(test_wrong_numbers_of_ranks),
        cmocka_unit_test(test_ranks_meet),
        cmocka_unit_test(test_ranks_that_do_not_meet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
