"""Rows are computed once, survive kill -9, and belong to what they were made of."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress

import letters
import numpy as np
import pytest
from letters import NAME, TEXTS, Letters, named

from parbals.errors import InputError
from parbals.features.encoders import embed
from parbals.features.encoders.row_file import RowFile, read_sidecar, sidecar_path


def run(target, texts=TEXTS, encoder=None, **options):
    options = {"batch_size": 4, "block_rows": 10} | options
    return embed(encoder or Letters(), NAME, named(texts), len(texts), target, **options)


@pytest.fixture
def target(tmp_path):
    return tmp_path / "letters_train.npy"


@pytest.fixture
def expected():
    return Letters().encode(TEXTS)


class TestRows:
    def test_one_row_for_each_item_in_its_order(self, target, expected):
        told = []
        made = run(target, progress=lambda stage, done: told.append((stage, done)))
        assert (made.n_rows, made.n_features, made.n_computed, made.skipped) == (90, 8, 90, ())
        np.testing.assert_allclose(np.load(target, mmap_mode="r"), expected, rtol=1e-6)
        assert ("checking", 90) in told
        assert told[-1] == ("encoding", 90)

    def test_items_of_similar_length_are_encoded_together(self, target):
        encoder = Letters()
        run(target, encoder=encoder, block_rows=90)
        lengths = [len(text) for text in encoder.encoded]
        assert lengths == sorted(lengths)
        assert lengths != [len(text) for text in TEXTS]

    def test_the_sidecar_says_what_the_rows_are(self, target):
        run(target)
        known = json.loads(sidecar_path(target).read_text())
        assert known["encoder"] == NAME
        assert known["model"] == "letters 1"
        assert known["complete"] is True
        assert (known["rows"], known["columns"], known["skipped"]) == (90, 8, [])
        assert sorted(path.name for path in target.parent.iterdir()) == [
            "letters_train.npy",
            "letters_train.npy.json",
        ]

    def test_half_precision_is_stored_as_such(self, target):
        encoder = Letters()
        encoder.dtype = "<f2"
        run(target, encoder=encoder)
        assert np.load(target).dtype == np.float16


class TestReuse:
    def computed(self, target, **options):
        encoder = options.pop("encoder", Letters())
        made = run(target, encoder=encoder, **options)
        assert len(encoder.encoded) == made.n_computed
        return made.n_computed

    def test_nothing_is_computed_twice(self, target):
        assert self.computed(target) == 90
        before = target.read_bytes()
        assert self.computed(target) == 0
        assert target.read_bytes() == before

    def test_other_items_or_another_model_make_new_rows(self, target):
        run(target)
        changed = [*TEXTS[:-1], "another last message"]
        assert self.computed(target, texts=changed) == 90
        np.testing.assert_allclose(
            np.load(target)[-1], Letters().encode(changed[-1:])[0], rtol=1e-6
        )
        assert self.computed(target, texts=changed, encoder=Letters("2")) == 90
        np.testing.assert_allclose(np.load(target), Letters("2").encode(changed), rtol=1e-6)

    def test_two_texts_are_not_one_text_cut_elsewhere(self, target):
        run(target, ["ab", "c"])
        assert self.computed(target, texts=["a", "bc"]) == 2

    def test_an_array_from_elsewhere_is_not_overwritten(self, target):
        np.save(target, np.zeros((90, 3)))
        with pytest.raises(InputError, match="was not made by this command; move it away"):
            run(target)
        assert np.load(target).shape == (90, 3)

    def test_a_damaged_sidecar_is_named(self, target):
        run(target)
        sidecar_path(target).write_text("{")
        with pytest.raises(InputError, match=r"letters_train\.npy\.json is damaged; delete it"):
            run(target)


def killed_once(target, after_blocks, pause):
    """Start a real process that encodes, kill it when its sidecar counts so many blocks; returns
    how many it counts."""
    process = subprocess.Popen([sys.executable, letters.__file__, str(target), str(pause)])
    try:
        while process.poll() is None:
            if (
                sidecar_path(target).is_file()
                and len((read_sidecar(target) or {"blocks": []})["blocks"]) >= after_blocks
            ):
                os.kill(process.pid, signal.SIGKILL)
                break
            time.sleep(0.005)
    finally:
        code = process.wait()
    assert code == -signal.SIGKILL, "the process ended before it could be killed"
    return len(read_sidecar(target)["blocks"])


def check_resumed(target, whole, n_blocks):
    assert not target.exists(), "half an array must not look like a whole one"
    encoder = Letters()
    made = run(target, encoder=encoder)
    assert made.n_computed == len(encoder.encoded) == 90 - 10 * n_blocks
    assert sorted(encoder.encoded) == sorted(TEXTS[10 * n_blocks :])
    assert target.read_bytes() == whole


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
class TestKilled:
    def test_only_missing_rows_are_computed_and_the_bytes_are_the_same(self, tmp_path, target):
        run(tmp_path / "whole.npy")
        n_blocks = killed_once(target, 3, pause=0.05)
        assert 3 <= n_blocks < 9
        check_resumed(target, (tmp_path / "whole.npy").read_bytes(), n_blocks)

    @pytest.mark.faults
    def test_killed_at_any_time(self, tmp_path):
        run(tmp_path / "whole.npy")
        whole = (tmp_path / "whole.npy").read_bytes()
        for trial in range(20):
            target = tmp_path / f"{trial}.npy"
            check_resumed(
                target, whole, killed_once(target, trial % 8 + 1, pause=0.01 + 0.002 * trial)
            )


class TestTornFiles:
    """What a power cut can leave: bytes the sidecar does not count yet, or bytes that are not those
    it counted."""

    class Stop(Exception):
        pass

    def interrupted(self, target, after):
        def stop(stage, done):
            if stage == "encoding" and done >= after:
                raise self.Stop

        with pytest.raises(self.Stop):
            run(target, progress=stop)
        return target.with_name(f"{target.name}.partial")

    def test_rows_that_were_not_counted_are_made_again(self, target, tmp_path):
        run(tmp_path / "whole.npy")
        partial = self.interrupted(target, 40)
        with partial.open("ab") as file:
            file.write(b"half a row")
        assert run(target).n_computed == 50
        assert target.read_bytes() == (tmp_path / "whole.npy").read_bytes()

    @pytest.mark.parametrize("damage", ["flipped", "cut", "gone"])
    def test_rows_that_are_not_what_was_written_are_made_again(self, target, tmp_path, damage):
        run(tmp_path / "whole.npy")
        partial = self.interrupted(target, 40)
        content = bytearray(partial.read_bytes())
        content[128 + 25 * 32] ^= 255  # a byte of row 25
        partial.write_bytes(
            {"flipped": bytes(content), "cut": bytes(content[: 128 + 22 * 32]), "gone": b""}[damage]
        )
        assert run(target).n_computed == (90 if damage == "gone" else 70)
        assert target.read_bytes() == (tmp_path / "whole.npy").read_bytes()

    def test_an_item_that_was_replaced_meanwhile_is_encoded_anew(self, target):
        self.interrupted(target, 60)
        changed = [*TEXTS[:35], "replaced", *TEXTS[36:]]
        assert run(target, changed).n_computed == 60
        np.testing.assert_allclose(np.load(target), Letters().encode(changed), rtol=1e-6)

    def test_a_smaller_batch_goes_on_with_the_rest(self, target, expected):
        self.interrupted(target, 60)
        assert run(target, batch_size=1).n_computed == 30
        np.testing.assert_allclose(np.load(target), expected, rtol=1e-6)

    def test_a_run_that_had_all_rows_only_takes_the_name(self, target):
        run(target)
        whole = target.read_bytes()
        target.rename(target.with_name(f"{target.name}.partial"))
        assert run(target).n_computed == 0
        assert target.read_bytes() == whole


class TestBadItems:
    def texts(self, n_bad):
        return [f"BAD {i}" if 20 <= i < 20 + n_bad else text for i, text in enumerate(TEXTS)]

    def test_all_are_named_at_once_and_what_was_done_is_kept(self, target):
        texts = self.texts(3)
        texts[80] = "BAD 80"
        with pytest.raises(InputError) as caught:
            run(target, texts)
        assert str(caught.value).startswith(
            "4 of 90 texts cannot be read: row 20 (it says so itself), row 21 (it says so itself), "
            "row 22 (it says so itself), row 80 (it says so itself); replace them"
        )
        assert not target.exists()
        assert run(target).n_computed == 70

    def test_five_are_shown_and_the_sidecar_lists_the_others(self, target):
        with pytest.raises(
            InputError,
            match=r"^12 of 90 .*row 24 \(it says so itself\) and 7 more, listed in .*json;",
        ):
            run(target, self.texts(12))
        listed = json.loads(sidecar_path(target).read_text())["unreadable"]
        assert [entry["row"] for entry in listed] == list(range(20, 32))

    @pytest.mark.parametrize("n_bad", [1, 25])
    def test_skipped_rows_are_the_mean_of_the_others_and_are_listed(self, target, n_bad):
        texts = self.texts(n_bad)
        made = run(target, texts, skip_bad=True)
        assert made.skipped == tuple((i, f"row {i}") for i in range(20, 20 + n_bad))
        rows = np.load(target)
        good = np.array([not text.startswith("BAD") for text in texts])
        np.testing.assert_allclose(
            rows[good], Letters().encode([t for t in texts if t[:3] != "BAD"]), rtol=1e-6
        )
        np.testing.assert_allclose(
            rows[~good], np.tile(rows[good].mean(axis=0), (n_bad, 1)), rtol=1e-5
        )
        assert [entry["why"] for entry in read_sidecar(target)["skipped"]] == [
            "it says so itself"
        ] * n_bad
        assert run(target, texts, skip_bad=True).skipped == made.skipped

    @pytest.mark.parametrize("after", [40, 90])
    def test_what_an_earlier_call_skipped_stops_one_that_skips_nothing(self, target, after):
        """Whether the earlier call came to its end or not."""
        texts = self.texts(2)
        texts[80] = "BAD 80"

        def stop(stage, done):
            if stage == "encoding" and done >= after < 90:
                raise KeyboardInterrupt

        with suppress(KeyboardInterrupt):
            run(target, texts, skip_bad=True, progress=stop)
        assert target.exists() == (after == 90)
        with pytest.raises(InputError) as caught:
            run(target, texts)
        with pytest.raises(InputError) as fresh:
            run(target.with_name("fresh.npy"), texts)
        assert str(caught.value) == str(fresh.value)
        assert len(run(target, texts, skip_bad=True).skipped) == 3
        assert run(target).skipped == ()

    def test_skipped_items_have_the_names_of_today(self, target):
        texts = self.texts(1)
        run(target, texts, skip_bad=True)

        def moved():
            return iter([(f"new/{row}", text) for row, text in enumerate(texts)])

        with pytest.raises(
            InputError, match=r"^1 of 90 texts cannot be read: new/20 \(it says so itself\);"
        ):
            embed(Letters(), NAME, moved, 90, target, batch_size=4, block_rows=10)

    def test_bad_items_before_the_first_good_one(self, target):
        texts = ["BAD"] * 25 + TEXTS[25:]
        assert len(run(target, texts, skip_bad=True).skipped) == 25
        np.testing.assert_allclose(np.load(target)[25:], Letters().encode(TEXTS[25:]), rtol=1e-6)

    def test_nothing_but_bad_items_is_refused(self, target):
        with pytest.raises(InputError, match="None of the 12 texts can be read"):
            run(target, ["BAD"] * 12, skip_bad=True)
        assert list(target.parent.glob("*.npy*")) == []


class TestRefused:
    def test_rows_that_cannot_be_features(self, target):
        encoder = Letters()
        for made, said in (
            (np.full((4, 8), np.nan, np.float32), r"not finite of row \d"),
            (np.zeros((3, 8), np.float32), r"float32 \(3, 8\) of 4 items"),
            (np.zeros((4, 8), np.int64), "int64"),
        ):
            encoder.encode = lambda prepared, made=made: made
            with pytest.raises(InputError, match=said):
                run(target, TEXTS[:4], encoder=encoder)
            assert list(target.parent.glob("*.npy*")) == []

    def test_rows_that_change_their_length(self, target):
        encoder = Letters()
        encoder.encode = lambda prepared: np.zeros(
            (len(prepared), 3 if "message 1" in prepared[0] else 4), np.float32
        )
        with pytest.raises(InputError, match="rows of 3 numbers after rows of 4"):
            run(target, [TEXTS[0], *TEXTS[10:20]], encoder=encoder, batch_size=1)

    @pytest.mark.parametrize(
        ("options", "said"), [({"batch_size": 0}, "batch size is 0"), ({"texts": []}, "no items")]
    )
    def test_settings_without_sense(self, target, options, said):
        with pytest.raises(InputError, match=said):
            run(target, **options)

    def test_two_processes_do_not_write_one_file(self, target):
        holder = RowFile(target, {"encoder": NAME, "model": "x", "dtype": "<f4"}, 90, 10)
        with holder.growing([]), pytest.raises(InputError, match="Another process is writing"):
            run(target)

    def test_a_place_that_cannot_be_written(self, tmp_path):
        (tmp_path / "file").write_text("")
        with pytest.raises(InputError, match="cannot be written"):
            run(tmp_path / "file" / "rows.npy")

    @pytest.mark.skipif(sys.platform == "win32", reason="needs a limit on the size of files")
    def test_a_disk_that_takes_no_more_is_one_sentence_and_nothing_is_lost(self, target, expected):
        import resource

        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (128 + 45 * 32, limits[1]))
        try:
            with pytest.raises(
                InputError,
                match=r"partial cannot be written \(File too large\); what is done is kept",
            ):
                run(target)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert run(target).n_computed == 50
        np.testing.assert_allclose(np.load(target), expected, rtol=1e-6)
