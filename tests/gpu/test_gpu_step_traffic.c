/* SPDX-License-Identifier: MIT
 * Memory traffic of whole training steps in mixed precision beside those in float32, as the stand-in counts it. */
#include "harness/check.h"
#include "harness/cuda_device.h"
#include "harness/optimizer.h"

#include "frontend/compile/compile.h"
#include <traincc/traincc.h>

#include <stdio.h>
#include <stdlib.h>

#define OK(cx, call)                                                            \
    do {                                                                        \
        if ((call) != TCC_OK) fail_msg("%s: %s", #call, tcc_context_error(cx)); \
    } while (0)

/* -- Models and batches: activations are most of what a step moves, as in real training -- */

enum { GPT_BATCH = 16, GPT_CONTEXT = 64, GPT_VOCAB = 65, IMAGES = 8, SIDE = 32, CLASSES = 10 };

static void char_gpt(tcc_trace *t, void *user) {
    (void)user;
    const tcc_gpt_options o = {.layers = 2, .heads = 2, .width = 64, .context = GPT_CONTEXT, .vocab = GPT_VOCAB};
    tcc_loss(t, tcc_cross_entropy(tcc_gpt(t, tcc_input(t, "x"), &o), tcc_input(t, "y")));
}

static void resnet(tcc_trace *t, void *user) {
    (void)user;
    const tcc_resnet_options o = {.depth = 18, .classes = CLASSES, .width = 16, .cifar_stem = true};
    tcc_loss(t, tcc_cross_entropy(tcc_resnet(t, tcc_input(t, "x"), &o), tcc_input(t, "y")));
}

static int32_t tokens[2][GPT_BATCH * GPT_CONTEXT], labels[IMAGES];
static float pixels[IMAGES * 3 * SIDE * SIDE];

/* -- Counting -- */

/* Bytes that launches move. `once`: each byte counts once a launch, as if caches held what it reads again; `sectors`:
 * all that its accesses touch, in sectors of 32 bytes. */
typedef struct traffic {
    double once, sectors;
} traffic;

static traffic traffic_of(const char *kernel) {
    ptxsim_stats s;
    if (sim.get_stats(kernel, &s)) fail_msg("no launch of %s is counted", kernel ? kernel : "any kernel");
    return (traffic){(double)(s.global_read_unique_bytes + s.global_write_unique_bytes),
                     32.0 * (double)s.global_sectors};
}

static void add(traffic *to, traffic t) {
    to->once += t.once;
    to->sectors += t.sectors;
}

/* Whether a step reads or writes moments of the optimizer. */
static bool updates(const tcc_program *p, const tcc_step *step) {
    for (int i = 0; i < step->n_instances; i++)
        for (int k = 0; k < p->kernels[step->kernel].n_buffers; k++) {
            const tcc_buffer *b = &step->instances[i].buffers[k];
            if (b->space != TCC_SPACE_BINDING) continue;
            const tcc_binding *state = &p->bindings[b->binding];
            if (state->role == TCC_ROLE_STATE && !state->copy_of) return true;
        }
    return false;
}

/* Traffic of a whole step: its kernels', by the entries that they launch, and its copies'. `update`: what updates
 * parameters. With TCC_TEST_VERBOSE prints a line an entry. */
static traffic program_traffic(const tcc_program *p, traffic *update) {
    traffic all = {0};
    for (int i = 0; i < p->n_steps; i++) {
        const tcc_step *step = &p->steps[i];
        assert_int_not_equal(step->kind, TCC_STEP_LIBRARY);
        if (step->kind == TCC_STEP_COPY) {
            const double bytes = 2 * (double)step->to.size_bytes;
            add(&all, (traffic){bytes, bytes});
            continue;
        }
        int before = 0, uses = 0;
        for (int k = 0; k < p->n_steps; k++) {
            const tcc_step *other = &p->steps[k];
            const bool same = other->kind == TCC_STEP_KERNEL && other->kernel == step->kernel &&
                              (other->n_instances > 1) == (step->n_instances > 1);
            uses += same;
            before += same && k < i;
        }
        if (before) continue;
        char entry[128];
        snprintf(entry, sizeof entry, "%s%s", p->kernels[step->kernel].symbol, step->n_instances > 1 ? "_table" : "");
        const traffic t = traffic_of(entry);
        add(&all, t);
        if (updates(p, step)) add(update, t);
        if (getenv("TCC_TEST_VERBOSE"))
            printf("%-20s %3d x %9.1f KB, %9.1f in sectors  %s (%s)\n", entry, uses, t.once / 1024, t.sectors / 1024,
                   step->label, step->lines);
    }
    return all;
}

static traffic step_traffic(tcc_model_fn net, const tcc_array *batch, const tcc_model_options *o, traffic *update) {
    tcc_context *cx;
    tcc_model *m;
    OK(cx, tcc_context_create(&cx));
    OK(cx, tcc_model_create(cx, net, NULL, o, &m));
    sim.reset_stats();
    OK(cx, tcc_model_train(m, batch, 2));
    OK(cx, tcc_model_synchronize(m));
    const traffic launched = traffic_of(NULL), all = program_traffic(m->last->program, update);
    assert_true(all.once >= launched.once && all.sectors >= launched.sectors); /* no launch is left out */
    tcc_model_destroy(m);
    tcc_context_destroy(cx);
    return all;
}

/* Half of the bytes of all activations, and a little for what stays in float32: statistics, partial sums, the
 * optimizer. */
static const double most_of_float32 = 0.6;

static void compare(tcc_model_fn net, const char *name, const tcc_array *batch,
                    const tcc_optimizer_options *optimizer) {
    traffic all[2], update[2] = {0};
    for (int low = 0; low < 2; low++) {
        const tcc_model_options o = {.size = sizeof o,
                                     .device = "cuda",
                                     .seed = 5,
                                     .optimizer = optimizer,
                                     .mixed_precision = low ? TCC_MIXED_BF16 : TCC_MIXED_NONE};
        all[low] = step_traffic(net, batch, &o, &update[low]);
    }
    const traffic ratio = {all[1].once / all[0].once, all[1].sectors / all[0].sectors};
    printf("%s: f32 %.0f KB, of that the optimizer %.3f; bf16 %.0f KB, %.3f of f32, %.3f without the optimizer; in "
           "sectors %.3f, %.3f\n",
           name, all[0].once / 1024, update[0].once / all[0].once, all[1].once / 1024, ratio.once,
           (all[1].once - update[1].once) / (all[0].once - update[0].once), ratio.sectors,
           (all[1].sectors - update[1].sectors) / (all[0].sectors - update[0].sectors));
    if (ratio.once > most_of_float32 || ratio.sectors > most_of_float32)
        fail_msg("%s: the bf16 step moves %.3f of the float32 step's bytes, %.3f of its sectors", name, ratio.once,
                 ratio.sectors);
}

static void char_gpt_moves_little(void **state) {
    (void)state;
    const tcc_optimizer_options adamw = OPTIMIZER(TCC_ADAMW, 1e-3, .weight_decay = 0.1, .clip_grad_norm = 1);
    for (int i = 0; i < GPT_BATCH * GPT_CONTEXT; i++) {
        tokens[0][i] = (i * i + 7 * i) % GPT_VOCAB;
        tokens[1][i] = (tokens[0][i] * 3 + 1) % GPT_VOCAB;
    }
    const tcc_array batch[] = {{"x", TCC_I32, 2, {GPT_BATCH, GPT_CONTEXT}, tokens[0]},
                               {"y", TCC_I32, 2, {GPT_BATCH, GPT_CONTEXT}, tokens[1]}};
    compare(char_gpt, "char_gpt", batch, &adamw);
}

static void resnet_moves_little(void **state) {
    (void)state;
    const tcc_optimizer_options sgd = OPTIMIZER(TCC_SGD, 0.1, .momentum = 0.9);
    for (int i = 0; i < IMAGES; i++) labels[i] = i % CLASSES;
    for (int i = 0; i < IMAGES * 3 * SIDE * SIDE; i++) pixels[i] = (float)(i * 37 % 101) / 101 - 0.5f;
    const tcc_array batch[] = {{"x", TCC_F32, 4, {IMAGES, 3, SIDE, SIDE}, pixels}, {"y", TCC_I32, 1, {IMAGES}, labels}};
    compare(resnet, "resnet18", batch, &sgd);
}

int main(void) {
    /* A GPU as small as the models: to fill a large one, products would be cut into parts whose sums are most of the
     * traffic. */
    setenv("PTXSIM_SM_COUNT", "24", 0);
    setenv("TCC_LIBRARIES", "none", 1);
    cuda_set_up(NULL);
    if (!sim.get_stats) {
        printf("skipped: only the stand-in driver counts, with warps in lockstep\n");
        return 77;
    }
    const struct CMUnitTest tests[] = {CUDA_TEST(char_gpt_moves_little), CUDA_TEST(resnet_moves_little)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
