"""The few operations that all three parts share, as functions of plain weights; usable under autograd."""

import torch.nn.functional as F
from torch import Tensor

from photon.models.moondream.weights import Linear, Mlp, Norm

NORM_EPS = 1e-5


def linear(x: Tensor, w: Linear) -> Tensor:
    return F.linear(x, w.weight, w.bias)


def layer_norm(x: Tensor, w: Norm) -> Tensor:
    return F.layer_norm(x, w.weight.shape, w.weight, w.bias, NORM_EPS)


def mlp(x: Tensor, w: Mlp) -> Tensor:
    return linear(F.gelu(linear(x, w.fc1), approximate="tanh"), w.fc2)
