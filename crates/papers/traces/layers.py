"""Encoder layers as a transformer such as BERT has them, with random weights, over so many sentences."""

import os
import sys

import numpy as np

# As many layers as BERT's base model, which is twelve times as wide.
LAYERS, WIDTH, HEADS, TOKENS = 12, 64, 4, 64

random = np.random.default_rng(1)


def weights(*shape):
    return random.standard_normal(shape, dtype=np.float32) / np.float32(np.sqrt(shape[0]))


def normal(x):
    x = x - x.mean(1, keepdims=True)
    return x / np.sqrt((x * x).mean(1, keepdims=True) + np.float32(1e-12))


def gelu(x):
    return x * (1 + np.tanh(np.float32(0.7978845608) * (x + np.float32(0.044715) * x * x * x))) / 2


def softmax(x):
    x = np.exp(x - x.max(-1, keepdims=True))
    return x / x.sum(-1, keepdims=True)


def attention(x, qkv, out):
    q, k, v = (x @ qkv).reshape(TOKENS, 3, HEADS, -1).transpose(1, 2, 0, 3)
    scores = softmax(q @ k.transpose(0, 2, 1) / np.float32(np.sqrt(WIDTH / HEADS)))
    return (scores @ v).transpose(1, 0, 2).reshape(TOKENS, WIDTH) @ out


layers = [
    (
        weights(WIDTH, 3 * WIDTH),
        weights(WIDTH, WIDTH),
        weights(WIDTH, 4 * WIDTH),
        weights(4 * WIDTH, WIDTH),
    )
    for _ in range(LAYERS)
]
for _ in range(int(sys.argv[1])):
    x = weights(TOKENS, WIDTH)
    for qkv, out, up, down in layers:
        x = normal(x + attention(x, qkv, out))
        x = normal(x + gelu(x @ up) @ down)
    print(float(x.sum()))
# The end would be a part of the trace.
sys.stdout.flush()
os._exit(0)
