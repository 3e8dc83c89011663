/* SPDX-License-Identifier: MIT
 * A graph convolution network (Kipf and Welling 2016) on an edge list: who went with whom when a karate club split
 * (Zachary 1977)? It is told the sides of the two leaders alone, and finds those of the others by their friends.
 *     build/bin/example-gcn                                    The same in PyTorch takes 57 lines. */
#include <traincc/traincc.h>

#include <stdio.h>
#include <stdlib.h>

enum { MEMBERS = 34, FRIENDSHIPS = 78, EDGES = 2 * FRIENDSHIPS + MEMBERS, HIDDEN = 16 };

static const int friends[FRIENDSHIPS][2] = {
    {0, 1},   {0, 2},   {0, 3},   {0, 4},   {0, 5},   {0, 6},   {0, 7},   {0, 8},   {0, 10},  {0, 11},
    {0, 12},  {0, 13},  {0, 17},  {0, 19},  {0, 21},  {0, 31},  {1, 2},   {1, 3},   {1, 7},   {1, 13},
    {1, 17},  {1, 19},  {1, 21},  {1, 30},  {2, 3},   {2, 7},   {2, 8},   {2, 9},   {2, 13},  {2, 27},
    {2, 28},  {2, 32},  {3, 7},   {3, 12},  {3, 13},  {4, 6},   {4, 10},  {5, 6},   {5, 10},  {5, 16},
    {6, 16},  {8, 30},  {8, 32},  {8, 33},  {9, 33},  {13, 33}, {14, 32}, {14, 33}, {15, 32}, {15, 33},
    {18, 32}, {18, 33}, {19, 33}, {20, 32}, {20, 33}, {22, 32}, {22, 33}, {23, 25}, {23, 27}, {23, 29},
    {23, 32}, {23, 33}, {24, 25}, {24, 27}, {24, 31}, {25, 31}, {26, 29}, {26, 33}, {27, 33}, {28, 31},
    {28, 33}, {29, 32}, {29, 33}, {30, 32}, {30, 33}, {31, 32}, {31, 33}, {32, 33}};
static const char sides[] = "0000000001000011001010111111111111"; /* after the split */

/* For each member the sum over its edges of what the others have, divided by the roots of both numbers of edges. */
static tcc_tensor gather(tcc_trace *t, tcc_tensor h, tcc_tensor from, tcc_tensor to) {
    tcc_tensor ones = tcc_constant(t, 1, TCC_F32, TCC_DIMS(EDGES)),
               none = tcc_constant(t, 0, TCC_F32, TCC_DIMS(MEMBERS));
    tcc_tensor root = tcc_expand_dims(tcc_rsqrt(tcc_scatter_add(none, to, ones, 0)), TCC_DIMS(1));
    tcc_tensor messages = tcc_take(tcc_mul(h, root), from, 0); /* [EDGES, width] */
    return tcc_mul(tcc_scatter_add(tcc_full_like(h, 0), to, messages, 0), root);
}

static void gcn(tcc_trace *t, void *user) {
    (void)user;
    const tcc_tensor from = tcc_input(t, "from"), to = tcc_input(t, "to"), side = tcc_input(t, "side");
    tcc_tensor h = tcc_linear(tcc_eye(t, MEMBERS, TCC_F32), "conv1", HIDDEN); /* nothing is known of a member */
    h = tcc_relu(gather(t, h, from, to));
    h = gather(t, tcc_linear(h, "conv2", 2), from, to);
    tcc_output(t, "found", tcc_argmax(h, 1));
    tcc_loss(t, tcc_cross_entropy(h, side)); /* a side of -100 does not count */
}

int main(void) {
    static int32_t from[EDGES], to[EDGES], side[MEMBERS];
    for (int i = 0; i < FRIENDSHIPS; i++) {
        from[2 * i] = to[2 * i + 1] = friends[i][0];
        to[2 * i] = from[2 * i + 1] = friends[i][1];
    }
    for (int i = 0; i < MEMBERS; i++) {
        from[2 * FRIENDSHIPS + i] = to[2 * FRIENDSHIPS + i] = i;
        side[i] = i == 0 ? 0 : i == MEMBERS - 1 ? 1 : -100;
    }
    const tcc_array batch[] = {{.name = "from", .dtype = TCC_I32, .rank = 1, .dims = {EDGES}, .data = from},
                               {.name = "to", .dtype = TCC_I32, .rank = 1, .dims = {EDGES}, .data = to},
                               {.name = "side", .dtype = TCC_I32, .rank = 1, .dims = {MEMBERS}, .data = side}};
    tcc_context *cx = NULL;
    tcc_model *model = NULL;
    tcc_array found = {0};
    tcc_optimizer_options adam;
    tcc_optimizer_init(&adam, TCC_ADAM);
    adam.lr = 0.01;
    const tcc_model_options options = {.size = sizeof options, .seed = 1, .optimizer = &adam};
    tcc_status status = tcc_context_create(&cx);
    if (status == TCC_OK) status = tcc_model_create(cx, gcn, NULL, &options, &model);
    for (int step = 0; step <= 200 && status == TCC_OK; step++) {
        status = tcc_model_train(model, batch, 3);
        if (status == TCC_OK && step % 50 == 0) printf("step %3d  loss %.4f\n", step, tcc_model_loss(model));
    }
    if (status == TCC_OK) status = tcc_model_evaluate(model, batch, 3);
    if (status == TCC_OK) status = tcc_model_output(model, "found", &found);
    int right = 0;
    for (int i = 0; i < MEMBERS && status == TCC_OK; i++) right += ((int32_t *)found.data)[i] == sides[i] - '0';
    if (status == TCC_OK) printf("%d of %d members on the right side\n", right, MEMBERS);
    else fprintf(stderr, "%s\n", cx ? tcc_context_error(cx) : tcc_status_text(status));

    tcc_model_destroy(model);
    tcc_context_destroy(cx);
    return right >= 30 ? EXIT_SUCCESS : EXIT_FAILURE;
}
