"""``python -m benchmarks`` is ``python benchmarks/engine.py``."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from engine import main

if __name__ == "__main__":
    sys.exit(main())
