"""Adapting, killed at a point: ``python adapting_killed.py PROJECT WHERE``."""

import os
import signal
import subprocess
import sys
from pathlib import Path

__all__ = ["WHERE", "kill_adapting"]

WHERE = ["training on a fold", "training on all", "encoding", "named", "written", "stored"]


def kill_adapting(project, where):
    """It died there, and by nothing else."""
    command = [sys.executable, __file__, str(project), where]
    died = subprocess.run(command, env=os.environ, check=False, capture_output=True)
    assert died.returncode == -signal.SIGKILL, died.stderr.decode()


def main(folder, where):
    from parbals_label.encoders import trees
    from parbals_label.project import adapting, embedding
    from parbals_label.store.store import Store

    def die():
        os.kill(os.getpid(), signal.SIGKILL)

    def progress(stage, done, total):
        if stage.startswith(where) and total and done > total / 2:
            die()

    trees._N_TREES = 4
    if where == "named":  # the encoder has its name, the features have none
        adapting.make_features = lambda *rest: die()
    if where == "written":  # the features are on disk, and the settings do not know
        write = embedding.store_features
        embedding.store_features = lambda *rest: (write(*rest), die())
    if where == "stored":  # the settings know, and what was there before is still there
        embedding.remove_matrices = lambda *rest: die()
    with Store.open(folder) as store:
        adapting.adapt_project(store, progress, force=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
