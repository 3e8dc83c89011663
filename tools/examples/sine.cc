// SPDX-License-Identifier: MIT
// C++: a network learns the sine of its input.  build/bin/example-sine
// The headers are those of C. Options are designated initializers in C++20; in C++17, as here, values in their order.
#include <traincc/traincc.h>

#include <cmath>
#include <cstdio>
#include <memory>
#include <vector>

constexpr int64_t points = 256;

struct Destroy {
    void operator()(tcc_context *cx) const { tcc_context_destroy(cx); }
    void operator()(tcc_model *m) const { tcc_model_destroy(m); }
};

// What the model is made of is a value: the trace gets it back.
struct Network {
    int64_t width;
    tcc_tensor operator()(tcc_tensor x) const {
        const tcc_tensor h = tcc_tanh(tcc_linear(x, "fc1", width));
        return tcc_linear(tcc_tanh(tcc_linear(h, "fc2", width)), "out", 1);
    }
};

int main() {
    std::vector<float> x(points), y(points);
    for (int64_t i = 0; i < points; i++) {
        x[i] = static_cast<float>(i) * 6.2831853F / points - 3.1415927F;
        y[i] = std::sin(x[i]);
    }
    const tcc_array batch[] = {{"x", TCC_F32, 2, {points, 1}, x.data(), TCC_MEMORY_HOST, nullptr},
                               {"y", TCC_F32, 2, {points, 1}, y.data(), TCC_MEMORY_HOST, nullptr}};

    Network network{32};
    const auto trace = [](tcc_trace *t, void *user) {
        const auto &net = *static_cast<const Network *>(user);
        tcc_loss(t, tcc_mse_loss(net(tcc_input(t, "x")), tcc_input(t, "y")));
    };
    tcc_optimizer_options adam;
    tcc_optimizer_init(&adam, TCC_ADAM);
    adam.lr = 0.01;
    tcc_model_options options{};
    options.size = sizeof options;
    options.optimizer = &adam;

    tcc_context *cx = nullptr;
    tcc_model *m = nullptr;
    tcc_status status = tcc_context_create(&cx);
    const std::unique_ptr<tcc_context, Destroy> context(cx);
    if (status == TCC_OK) status = tcc_model_create(cx, trace, &network, &options, &m);
    const std::unique_ptr<tcc_model, Destroy> model(m);
    for (int step = 0; step <= 500 && status == TCC_OK; step++) {
        status = tcc_model_train(m, batch, 2);
        if (status == TCC_OK && step % 100 == 0) std::printf("step %3d  loss %.6f\n", step, tcc_model_loss(m));
    }
    if (status != TCC_OK) std::fprintf(stderr, "%s\n", cx ? tcc_context_error(cx) : tcc_status_text(status));
    return status != TCC_OK || tcc_model_loss(m) > 1e-3;
}
