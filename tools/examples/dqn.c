/* SPDX-License-Identifier: MIT
 * Deep Q-learning with two networks (Mnih et al. 2015): the way through a maze. The learner's targets come from an
 * older copy of its network; the player shares the network and tells the best actions.  build/bin/example-dqn
 * In PyTorch it is 57 lines. */
#include <traincc/traincc.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE = 6, CELLS = SIDE * SIDE, GOAL = CELLS - 1, ACTIONS = 4, BATCH = 32, STEPS = 5000, SHORTEST = 14 };
static const char maze[] = "..#..."
                           "..#.#."
                           "#...#."
                           "..###."
                           ".#...."
                           "...#..";
static int32_t memory[STEPS][3]; /* cell, action, next cell */

static tcc_tensor values(const char *name, tcc_tensor cells) { /* of each action there */
    tcc_scope(cells.trace, "%s", name);
    const tcc_tensor h = tcc_relu(tcc_linear(tcc_one_hot(cells, CELLS, TCC_F32), "fc1", 48));
    const tcc_tensor q = tcc_linear(h, "fc2", ACTIONS);
    tcc_scope_end(cells.trace);
    return q;
}

static void learner(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor seen[3];
    tcc_chunk(tcc_input(t, "seen"), 1, 3, seen); /* [BATCH, 1] each */
    const tcc_tensor taken = tcc_one_hot(seen[1], ACTIONS, TCC_F32);
    const tcc_tensor value = tcc_sum(tcc_mul(values("online", seen[0]), taken), TCC_DIMS(2));
    const tcc_tensor later = tcc_scale(tcc_reduce_max(values("target", seen[2]), TCC_DIMS(2)), 0.95);
    const tcc_tensor ends = tcc_eq(seen[2], tcc_constant(t, GOAL, TCC_I32, TCC_DIMS(BATCH, 1)));
    tcc_loss(t, tcc_mse_loss(value, tcc_select(ends, tcc_constant(t, 1, TCC_F32, TCC_DIMS(BATCH, 1)), later)));
}

static void player(tcc_trace *t, void *user) {
    (void)user;
    tcc_output(t, "best", tcc_argmax(values("online", tcc_iota(t, 0, TCC_I32, TCC_DIMS(CELLS))), -1));
}

static int below(int limit) { /* a random number */
    static uint32_t state = 1;
    state = state * 1664525U + 1013904223U;
    return (int)((state >> 8) % (uint32_t)limit);
}

static int32_t move(int32_t cell, int32_t action) {
    static const int across[ACTIONS] = {1, -1, 0, 0}, down[ACTIONS] = {0, 0, 1, -1};
    const int x = cell % SIDE + across[action], y = cell / SIDE + down[action];
    return x < 0 || x == SIDE || y < 0 || y == SIDE || maze[y * SIDE + x] == '#' ? cell : y * SIDE + x;
}

static tcc_status learn(tcc_model *m, int step) {
    int32_t seen[BATCH][3];
    const tcc_array batch = {.name = "seen", .dtype = TCC_I32, .rank = 2, .dims = {BATCH, 3}, .data = seen};
    for (int i = 0, from; i < BATCH; i++) from = below(step + 1), memcpy(seen[i], memory[from], sizeof seen[i]);
    tcc_status status = tcc_model_train(m, &batch, 1);
    tcc_array p;
    for (int i = 0; step % 100 == 0 && status == TCC_OK && tcc_model_param(m, i, &p); i++) {
        char name[64] = "target"; /* gets the values of "online" */
        if (strncmp(p.name, name, 6)) p.name = strcat(name, p.name + 6), status = tcc_model_set_param(m, &p);
    }
    return status;
}

int main(void) {
    tcc_context *cx = NULL;
    tcc_model *models[2] = {NULL, NULL}; /* the learner, the player */
    tcc_param_group frozen;
    tcc_param_group_init(&frozen, "target.*");
    frozen.frozen = true;
    tcc_optimizer_options adam;
    tcc_optimizer_init(&adam, TCC_ADAM);
    adam.groups = &frozen, adam.n_groups = 1;
    tcc_status status = tcc_context_create(&cx);
    for (int k = 0; k < 2 && status == TCC_OK; k++) {
        const tcc_model_options options = {
            .size = sizeof options, .optimizer = &adam, .share = models[0], .name = k ? "player" : "learner"};
        status = tcc_model_create(cx, k ? player : learner, NULL, &options, &models[k]);
    }
    tcc_array best = {0};
    int steps = 0; /* of the learned way */
    for (int step = 0, cell = 0, length = 0; step < STEPS && status == TCC_OK; step++) {
        const int32_t action = step <= below(STEPS) ? below(ACTIONS) : ((int32_t *)best.data)[cell];
        memory[step][0] = cell, memory[step][1] = action, memory[step][2] = cell = move(cell, action);
        if (cell == GOAL || ++length == 100) cell = length = 0;
        status = learn(models[0], step);
        if (status == TCC_OK) status = tcc_model_evaluate(models[1], NULL, 0);
        if (status == TCC_OK) status = tcc_model_output(models[1], "best", &best);
    }
    for (int at = 0; at != GOAL && steps < 99 && status == TCC_OK; steps++) at = move(at, ((int32_t *)best.data)[at]);
    if (status == TCC_OK) printf("the way that it has learned: %d steps, the shortest has %d\n", steps, SHORTEST);
    else fprintf(stderr, "%s\n", cx ? tcc_context_error(cx) : tcc_status_text(status));
    for (int k = 0; k < 2; k++) tcc_model_destroy(models[k]);
    tcc_context_destroy(cx);
    return status == TCC_OK && steps == SHORTEST ? EXIT_SUCCESS : EXIT_FAILURE;
}
