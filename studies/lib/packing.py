"""The program of a module that packs datasets for a machine without them."""

import argparse
import os
from pathlib import Path

__all__ = ["packing_folder"]


def packing_folder(about: str) -> Path:
    """Read FOLDER and --data from the command line; the folder, which exists from now on."""
    parser = argparse.ArgumentParser(
        description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data", type=Path, help="the datasets' folder; by default $PARBALS_DATA")
    options = parser.parse_args()
    if options.data is not None:
        os.environ["PARBALS_DATA"] = str(options.data)
    folder: Path = options.folder
    folder.mkdir(parents=True, exist_ok=True)
    return folder
