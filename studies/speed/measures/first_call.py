"""The first call of a process on an accelerator, without and with compiled programs on disk."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

from lib.folders import STUDIES
from speed.clock import Measure


def measures(sizes: dict[str, Any]) -> Iterator[Measure]:
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {
            "JAX_ENABLE_COMPILATION_CACHE": "true",
            "JAX_COMPILATION_CACHE_DIR": folder,
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        }
        for state in ("no programs kept", "programs kept"):
            process = subprocess.run(
                [sys.executable, str(STUDIES), "speed.measure", "gpu", json.dumps(sizes)],
                env=environment,
                stdout=subprocess.PIPE,
                check=False,
            )
            if process.returncode != 0:
                sys.exit(process.returncode)  # its error stream is this process's
            for line in process.stdout.splitlines():
                measure = json.loads(line)
                yield measure | {"measure": f"{state}, {measure['measure']}"}
