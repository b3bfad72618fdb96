"""A child program: chooses batches of three until it is killed, and prints what was confirmed."""

import sys

from parbals_label.project.choose import choose_batch
from parbals_label.store.store import Store

with Store.open(sys.argv[1]) as store:
    store.end_leases(store.pending())
    print("ready", flush=True)  # noqa: T201
    while True:
        if store.n_items - len(store.pending()) - store.n_labelled < 3:
            print("all back", flush=True)  # noqa: T201
            store.end_leases(store.pending())
        number, batch = choose_batch(store, 3)
        print(number, *batch.indices.tolist(), flush=True)  # noqa: T201
