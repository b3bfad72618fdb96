"""The commands of projects: one file for each group of them."""

from parbals_label.cli.backup import COMMANDS as OPERATIONS
from parbals_label.cli.batch import next_, tell, untell
from parbals_label.cli.change import COMMANDS as CHANGES
from parbals_label.cli.label import label
from parbals_label.cli.label_studio import label_studio
from parbals_label.cli.look import doubts, export, salvage, status
from parbals_label.cli.measure import certify, estimate
from parbals_label.cli.predict import predict
from parbals_label.cli.project import adapt, embed, init
from parbals_label.cli.serve import serve
from parbals_label.cli.team import COMMANDS as TEAM

__all__ = ["COMMANDS"]

COMMANDS = (
    *(init, embed, adapt, next_, tell, untell, status, doubts, certify, estimate, export, salvage),
    *(*CHANGES, *OPERATIONS, predict, serve, *TEAM, label, label_studio),
)
