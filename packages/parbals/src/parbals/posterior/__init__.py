"""Labelled data to posteriors: ``closed`` in closed form, ``smc`` and ``nuts`` by samples."""
