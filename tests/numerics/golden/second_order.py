# SPDX-License-Identifier: MIT
"""The networks of tests/harness/second_order.c, which use a gradient, in PyTorch."""
import torch
import torch.nn.functional as F


def gradients(y, by):
    return torch.autograd.grad(y, by, create_graph=True)


def twice(f, x):
    first, = gradients(f(x).sum(), [x])
    return gradients(first.sum(), [x])[0]


def input_gradient(x, w1, w2):
    return gradients((torch.tanh(x @ w1) @ w2).sum(), [x])[0]


def physics_informed(place, time, w, v):
    u = torch.tanh(torch.cat([place, time], 1) @ w) @ v
    u_x, u_t = gradients(u.sum(), [place, time])
    u_xx, = gradients(u_x.sum(), [place])
    return u_t + u * u_x - 0.1 * u_xx


def gradient_penalty(x, w, v):
    h = F.leaky_relu(F.conv2d(x, w, stride=2, padding=1), 0.2).flatten(1) @ v
    gradient, = gradients(h.sum(), [x])
    return (gradient.flatten(1).norm(2, 1) - 1) ** 2


def score_matching(x, w1, w2, v):
    s = F.silu(x @ w1) @ w2
    along, = gradients((s * v).sum(), [x])
    return (along * v).sum(1) + (s * s).sum(1) / 2


def attention_gradient(x, w):
    q, k, v = (x @ w * 0.25).chunk(3, 2)
    hidden = torch.ones(q.shape[1], q.shape[1], dtype=torch.bool).triu(1)
    scores = (q @ k.transpose(1, 2) / q.shape[2] ** 0.5).masked_fill(hidden, -torch.inf)
    return gradients(((scores.softmax(2) @ v) ** 2).sum(), [x])[0]


def layer_norm_gradient(x, w):
    return gradients((F.gelu(F.layer_norm(x, x.shape[1:]) @ w) ** 2).sum(), [x])[0]


def pooled_convolution(x, w):
    h = F.softplus(F.max_pool2d(F.conv2d(x, w, padding=1), 2))
    return gradients((h * h).sum(), [x])[0]


def hessian_vector(x, w, targets, v):
    gradient, = gradients(F.cross_entropy(x @ w, targets, label_smoothing=0.1), [w])
    return gradients((gradient * v).sum(), [w])[0]


def recurrent_saliency(x, w, u, start):
    h = x[0] @ start * 0.5
    c = h * 0.3
    for step in x:
        i, f, g, o = (step @ w + h @ u).chunk(4, 1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
    return gradients((h * h).sum(), [x])[0]


def embedding_gradient(table, i, w):
    return gradients((torch.sin(table[i] @ w) ** 2).sum(), [table])[0]


def meta_learning(x, y, w, v, first_order=False):
    by = gradients(F.mse_loss(torch.tanh(x @ w) @ v, y), [w, v])
    w, v = (p - 0.1 * (g.detach() if first_order else g) for p, g in zip([w, v], by))
    return F.mse_loss(torch.tanh(-x @ w) @ v, y, reduction="none")


def meta_learning_first_order(*x):
    return meta_learning(*x, first_order=True)
