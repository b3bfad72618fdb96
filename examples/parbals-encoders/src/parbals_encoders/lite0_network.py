"""EfficientNet-Lite0: Tan and Le 2019 without squeeze-and-excitation, with ReLU6.

Only what the published weights need: parameter names are theirs, so that they load as they are.
"""

from typing import Any

import torch
from torch import nn
from torch.nn import functional

__all__ = ["Lite0"]

# kernel, stride, expansion, channels in, channels out, repeats
_STAGES = (
    (3, 1, 1, 32, 16, 1),
    (3, 2, 6, 16, 24, 2),
    (5, 2, 6, 24, 40, 2),
    (3, 2, 6, 40, 80, 3),
    (5, 1, 6, 80, 112, 3),
    (5, 2, 6, 112, 192, 4),
    (3, 1, 6, 192, 320, 1),
)
_WIDTH = 1280


class _Convolution(nn.Conv2d):
    """Padded as TensorFlow does: ⌈side / stride⌉ pixels come out, the odd one is added last."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        kernel, stride = self.kernel_size[0], self.stride[0]
        sides = [max((-(-n // stride) - 1) * stride + kernel - n, 0) for n in input.shape[-2:]]
        padding = [share for n in reversed(sides) for share in (n // 2, n - n // 2)]
        return super().forward(functional.pad(input, padding))


def _convolution(n_in: int, n_out: int, kernel: int, stride: int = 1, groups: int = 1) -> nn.Conv2d:
    return _Convolution(n_in, n_out, kernel, stride, groups=groups, bias=False)


def _norm(n_channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(n_channels, eps=1e-3)


class _Block(nn.Module):
    """Expand, filter each channel, project; added to the input where the shapes agree."""

    def __init__(self, kernel: int, stride: int, expansion: int, n_in: int, n_out: int) -> None:
        super().__init__()
        wide = n_in * expansion
        self.expands = expansion != 1
        if self.expands:
            self._expand_conv, self._bn0 = _convolution(n_in, wide, 1), _norm(wide)
        self._depthwise_conv = _convolution(wide, wide, kernel, stride, groups=wide)
        self._bn1 = _norm(wide)
        self._project_conv, self._bn2 = _convolution(wide, n_out, 1), _norm(n_out)
        self.is_residual = stride == 1 and n_in == n_out

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = functional.relu6(self._bn0(self._expand_conv(x))) if self.expands else x
        filtered = functional.relu6(self._bn1(self._depthwise_conv(wide)))
        projected = self._bn2(self._project_conv(filtered))
        return projected + x if self.is_residual else projected


class Lite0(nn.Module):
    """Images (B, 3, H, W) to features (B, 1280); ``_fc`` makes ImageNet's 1,000 logits of them."""

    def __init__(self) -> None:
        super().__init__()
        self._conv_stem, self._bn0 = _convolution(3, 32, 3, 2), _norm(32)
        self._blocks = nn.ModuleList(
            _Block(kernel, 1 if repeat else stride, expansion, n_out if repeat else n_in, n_out)
            for kernel, stride, expansion, n_in, n_out, repeats in _STAGES
            for repeat in range(repeats)
        )
        self._conv_head, self._bn1 = _convolution(320, _WIDTH, 1), _norm(_WIDTH)
        self._fc = nn.Linear(_WIDTH, 1000)

    def forward(self, x: torch.Tensor) -> Any:
        x = functional.relu6(self._bn0(self._conv_stem(x)))
        for block in self._blocks:
            x = block(x)
        return functional.relu6(self._bn1(self._conv_head(x))).mean(dim=(2, 3))
