"""Commands of projects: one file for each group of them."""

from parbals_label.cli.backup import backup, check
from parbals_label.cli.batch import next_, tell
from parbals_label.cli.change import add, edit
from parbals_label.cli.label import label
from parbals_label.cli.label_studio import label_studio
from parbals_label.cli.labels import labels
from parbals_label.cli.measure import estimate, measure
from parbals_label.cli.predict import predict
from parbals_label.cli.project import adapt, embed, init
from parbals_label.cli.queue import queue
from parbals_label.cli.results import export, status
from parbals_label.cli.serve import serve
from parbals_label.cli.target import target
from parbals_label.cli.team import team

__all__ = ["COMMANDS"]

COMMANDS = (
    init,
    add,
    edit,
    embed,
    adapt,
    target,
    serve,
    next_,
    tell,
    label,
    label_studio,
    labels,
    queue,
    status,
    measure,
    estimate,
    predict,
    export,
    team,
    backup,
    check,
)
