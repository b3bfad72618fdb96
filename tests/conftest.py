"""Makes the helper modules beside this file importable from every test.

What the tests and their processes keep is in a folder of their own, made before any of them loads
JAX: the user's cache is left alone. Compiled programs outlive the run, in .pytest_cache: they are
known by what they compute and by JAX's version, and the next run need not compile them again.
"""

import atexit
import os
import shutil
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

if "PARBALS_CACHE_DIR" not in os.environ:
    cache = tempfile.mkdtemp(prefix="parbals-tests-")
    os.environ["PARBALS_CACHE_DIR"] = cache
    atexit.register(shutil.rmtree, cache, ignore_errors=True)
    with suppress(OSError):  # a checkout that cannot be written to compiles every time
        compiled = Path(__file__).parents[1] / ".pytest_cache" / "compiled"
        compiled.mkdir(parents=True, exist_ok=True)
        Path(cache, "compiled").symlink_to(compiled, target_is_directory=True)
