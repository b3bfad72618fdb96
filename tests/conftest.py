"""Makes the helper modules beside this file importable from every test.

What the tests and their processes compile is kept in one folder of their own, before any of them
loads JAX: the user's cache is left alone.
"""

import atexit
import os
import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

if "PARBALS_CACHE_DIR" not in os.environ:
    os.environ["PARBALS_CACHE_DIR"] = tempfile.mkdtemp(prefix="parbals-tests-")
    atexit.register(shutil.rmtree, os.environ["PARBALS_CACHE_DIR"], ignore_errors=True)
