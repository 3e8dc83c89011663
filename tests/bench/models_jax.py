# SPDX-License-Identifier: MIT
"""The benchmark's models in JAX, the whole training step as one jitted function with donated state.
configs.py says what they are."""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import configs


def normal(rng, shape, std):
    return (rng.standard_normal(shape) * std).astype(np.float32)


def linear(rng, inputs, outputs):
    bound = 1 / math.sqrt(inputs)
    return {"w": rng.uniform(-bound, bound, (inputs, outputs)).astype(np.float32),
            "b": rng.uniform(-bound, bound, outputs).astype(np.float32)}


def conv(rng, inputs, outputs, size):
    bound = 1 / math.sqrt(inputs * size * size)
    return rng.uniform(-bound, bound, (size, size, inputs, outputs)).astype(np.float32)


# GPT
def gpt_init(m, rng):
    c, residual = m["width"], 0.02 / math.sqrt(2 * m["layers"])

    def dense(inputs, outputs, std):
        p = {"w": normal(rng, (inputs, outputs), std)}
        return {**p, "b": np.zeros(outputs, np.float32)} if m["bias"] else p

    def norm():
        p = {"g": np.ones(c, np.float32)}
        return {**p, "b": np.zeros(c, np.float32)} if m["bias"] else p

    block = lambda: {"ln_1": norm(), "c_attn": dense(c, 3 * c, 0.02), "proj": dense(c, c, residual), "ln_2": norm(),
                     "c_fc": dense(c, 4 * c, 0.02), "mlp_proj": dense(4 * c, c, residual)}
    return {"wte": normal(rng, (m["vocab"], c), 0.02), "wpe": normal(rng, (configs.positions(m), c), 0.02),
            "h": [block() for _ in range(m["layers"])], "ln_f": norm()}, {}


def dense(p, x):
    y = x @ p["w"]
    return y + p["b"] if "b" in p else y


def layer_norm(p, x):
    mean = x.mean(-1, keepdims=True)
    y = (x - mean) * lax.rsqrt(((x - mean) ** 2).mean(-1, keepdims=True) + 1e-5) * p["g"]
    return y + p["b"] if "b" in p else y


def gpt_forward(m, params, state, tokens):
    batch, time = tokens.shape
    heads, size = m["heads"], m["width"] // m["heads"]
    mask = jnp.tril(jnp.ones((time, time), bool))
    x = params["wte"][tokens] + params["wpe"][:time]
    for p in params["h"]:
        q, k, v = (t.reshape(batch, time, heads, size).transpose(0, 2, 1, 3)
                   for t in jnp.split(dense(p["c_attn"], layer_norm(p["ln_1"], x)), 3, axis=2))
        scores = jnp.where(mask, q @ k.transpose(0, 1, 3, 2) / math.sqrt(size), -jnp.inf)
        y = (jax.nn.softmax(scores) @ v).transpose(0, 2, 1, 3).reshape(batch, time, heads * size)
        x = x + dense(p["proj"], y)
        x = x + dense(p["mlp_proj"], jax.nn.gelu(dense(p["c_fc"], layer_norm(p["ln_2"], x)), approximate=False))
    return (layer_norm(params["ln_f"], x) @ params["wte"].T).reshape(batch * time, -1), state


# Convolutional networks, NHWC
def convolve(x, w, stride=1):
    pad = (w.shape[0] - 1) // 2
    return lax.conv_general_dilated(
        x, w, (stride, stride), [(pad, pad)] * 2, dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


def pool2(x):  # as a reshape: XLA's CPU backend is several times slower on the gradient of reduce_window
    n, h, w, c = x.shape
    return x.reshape(n, h // 2, 2, w // 2, 2, c).max((2, 4))


def cnn_init(m, rng):
    return {
        "c1": conv(rng, 1, 32, 3),
        "b1": np.zeros(32, np.float32),
        "c2": conv(rng, 32, 64, 3),
        "b2": np.zeros(64, np.float32),
        "f1": linear(rng, 3136, 128),
        "f2": linear(rng, 128, 10),
    }, {}


def cnn_forward(m, p, state, x):
    x = pool2(jax.nn.relu(convolve(x, p["c1"]) + p["b1"]))
    x = pool2(jax.nn.relu(convolve(x, p["c2"]) + p["b2"]))
    return dense(p["f2"], jax.nn.relu(dense(p["f1"], x.reshape(x.shape[0], -1)))), state


def resnet_init(m, rng):
    params, state = {}, {}

    def add(name, inputs, outputs, size):
        params[name] = {
            "w": conv(rng, inputs, outputs, size),
            "g": np.ones(outputs, np.float32),
            "b": np.zeros(outputs, np.float32),
        }
        state[name] = {"mean": np.zeros(outputs, np.float32), "var": np.ones(outputs, np.float32)}

    add("stem", 3, 64, 3)
    inputs = 64
    for stage in range(4):
        for block in range(2):
            outputs = 64 << stage
            add(f"{stage}.{block}.1", inputs, outputs, 3)
            add(f"{stage}.{block}.2", outputs, outputs, 3)
            if inputs != outputs:
                add(f"{stage}.{block}.s", inputs, outputs, 1)
            inputs = outputs
    params["linear"] = linear(rng, 512, 10)
    return params, state


def resnet_forward(m, params, state, x):
    new = {}

    def unit(name, x, stride=1):
        p = params[name]
        y = convolve(x, p["w"], stride)
        mean, count = y.mean((0, 1, 2)), y.size // y.shape[-1]
        var = jnp.maximum((y * y).mean((0, 1, 2)) - mean * mean, 0)
        new[name] = {
            "mean": 0.9 * state[name]["mean"] + 0.1 * mean,
            "var": 0.9 * state[name]["var"] + 0.1 * var * count / (count - 1),
        }
        return (y - mean) * (lax.rsqrt(var + 1e-5) * p["g"]) + p["b"]

    x = jax.nn.relu(unit("stem", x))
    for stage in range(4):
        for block in range(2):
            name, stride = f"{stage}.{block}.", 2 if stage and not block else 1
            y = unit(name + "2", jax.nn.relu(unit(name + "1", x, stride)))
            x = jax.nn.relu(y + (unit(name + "s", x, stride) if name + "s" in params else x))
    return dense(params["linear"], x.mean((1, 2))), new


def mlp_init(m, rng):
    return [linear(rng, i, o) for i, o in zip(m["sizes"], m["sizes"][1:])], {}


def mlp_forward(m, params, state, x):
    for p in params[:-1]:
        x = jax.nn.relu(dense(p, x))
    return dense(params[-1], x), state


def lstm_init(m, rng):
    return {"ih": linear(rng, m["width"], 4 * m["width"]), "hh": linear(rng, m["width"], 4 * m["width"]),
            "fc": linear(rng, m["width"], 10)}, {}


def lstm_forward(m, params, state, x):
    def step(carry, gates):
        h, c = carry
        i, f, g, o = jnp.split(gates + dense(params["hh"], h), 4, axis=-1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        return (jax.nn.sigmoid(o) * jnp.tanh(c), c), None

    zeros = jnp.zeros((m["batch"], m["width"]), jnp.float32)
    (h, _), _ = lax.scan(step, (zeros, zeros), dense(params["ih"], x))
    return dense(params["fc"], h), state


FORMS = {"gpt": (gpt_init, gpt_forward), "cnn": (cnn_init, cnn_forward), "resnet18": (resnet_init, resnet_forward),
         "mlp": (mlp_init, mlp_forward), "lstm": (lstm_init, lstm_forward)}


def update(o, params, grads, moments, count):
    tree = jax.tree_util.tree_map
    if o["clip"]:
        norm = jnp.sqrt(sum(jnp.vdot(g, g) for g in jax.tree_util.tree_leaves(grads)))
        scale = jnp.minimum(1.0, o["clip"] / (norm + 1e-6))
        grads = tree(lambda g: g * scale, grads)
    if o["name"] == "sgd":
        grads = tree(lambda g, p: g + o["weight_decay"] * p, grads, params)
        velocity = tree(lambda v, g: o["momentum"] * v + g, moments, grads)
        return tree(lambda p, v: p - o["lr"] * v, params, velocity), velocity
    (b1, b2), lr = o["betas"], o["lr"]
    m = tree(lambda m, g: b1 * m + (1 - b1) * g, moments[0], grads)
    v = tree(lambda v, g: b2 * v + (1 - b2) * g * g, moments[1], grads)
    c1, c2 = 1 - b1 ** count, 1 - b2 ** count

    def one(p, m, v):
        decay = o["weight_decay"] if p.ndim >= 2 else 0.0
        return p * (1 - lr * decay) - lr / c1 * m / (jnp.sqrt(v / c2) + o["eps"])

    return tree(one, params, m, v), (m, v)


def trainer(name):
    """A function that does one whole training step and returns the loss as a float."""
    m = configs.MODELS[name]
    o, (init, forward) = m["optimizer"], FORMS[m["kind"]]
    params, state = init(m, np.random.default_rng(1))
    zeros = lambda: jax.tree_util.tree_map(lambda p: jnp.zeros_like(p), params)
    moments = zeros() if o["name"] == "sgd" else (zeros(), zeros())
    inputs, targets = configs.batch(name)
    if inputs.ndim == 4:
        inputs = np.ascontiguousarray(inputs.transpose(0, 2, 3, 1))
    inputs, targets = jnp.asarray(inputs), jnp.asarray(targets.reshape(-1))
    box = [jax.tree_util.tree_map(jnp.asarray, (params, moments, state)), jnp.float32(0)]

    def loss_of(params, state, x, y):
        logits, new = forward(m, params, state, x)
        return -jnp.take_along_axis(jax.nn.log_softmax(logits), y[:, None], axis=1).mean(), new

    def whole(carry, count, x, y):
        params, moments, state = carry
        (loss, state), grads = jax.value_and_grad(loss_of, has_aux=True)(params, state, x, y)
        params, moments = update(o, params, grads, moments, count)
        return (params, moments, state), loss

    jitted = jax.jit(whole, donate_argnums=0)

    def step():
        box[1] = box[1] + 1
        box[0], loss = jitted(box[0], box[1], inputs, targets)
        jax.block_until_ready(box[0])
        return float(loss)

    return step
