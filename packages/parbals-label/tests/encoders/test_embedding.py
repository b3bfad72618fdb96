"""Rows are computed once, survive kill -9, and belong to what they were made of."""

import json
import os
import signal
import subprocess
import sys
import time

import letters
import numpy as np
import pytest
from letters import NAME, TEXTS, Letters, named
from parbals.errors import InputError
from parbals_label.encoders import Options, embed
from parbals_label.encoders.row_file import alone, read_sidecar, sidecar_path


def run(target, texts=TEXTS, encoder=None, *, batch_size=4, skip_bad=False, block=10, **others):
    options = Options(batch_size=batch_size, skip_bad=skip_bad)
    encoder = encoder or Letters()
    return embed(encoder, NAME, named(texts), len(texts), target, options, block=block, **others)


@pytest.fixture
def target(tmp_path):
    return tmp_path / "letters_train.npy"


@pytest.fixture
def expected():
    return Letters().encode(TEXTS)


class TestRows:
    def test_one_row_for_each_item_in_its_order(self, target, expected):
        calls = []
        made = run(target, progress=lambda *told: calls.append(told))
        assert (made.n_rows, made.n_features, made.n_computed, made.skipped) == (90, 8, 90, ())
        np.testing.assert_allclose(np.load(target, mmap_mode="r"), expected, rtol=1e-6)
        assert ("checking", 90, 90) in calls
        assert calls[-1] == ("encoding", 90, 90)

    def test_items_of_similar_length_are_encoded_together(self, target):
        encoder = Letters()
        run(target, encoder=encoder, block=90)
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
        assert self.computed(target, texts=changed) == 10  # the last block
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


def n_blocks(target):
    return sum(block is not None for block in read_sidecar(target)["blocks"])


def killed_once(target, after_blocks, pause):
    """Kill a process that encodes when its sidecar counts so many blocks; how many it counts."""
    process = subprocess.Popen([sys.executable, letters.__file__, str(target), str(pause)])
    try:
        while process.poll() is None:
            if sidecar_path(target).is_file() and n_blocks(target) >= after_blocks:
                os.kill(process.pid, signal.SIGKILL)
                break
            time.sleep(0.005)
    finally:
        code = process.wait()
    assert code == -signal.SIGKILL, "the process ended before it could be killed"
    return n_blocks(target)


def check_resumed(target, whole, n_done):
    assert not target.exists(), "half an array must not look like a whole one"
    encoder = Letters()
    made = run(target, encoder=encoder)
    assert made.n_computed == len(encoder.encoded) == 90 - 10 * n_done
    assert sorted(encoder.encoded) == sorted(TEXTS[10 * n_done :])
    assert target.read_bytes() == whole


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
class TestKilled:
    def test_only_missing_rows_are_computed_and_the_bytes_are_the_same(self, tmp_path, target):
        run(tmp_path / "whole.npy")
        n_done = killed_once(target, 3, pause=0.05)
        assert 3 <= n_done < 9
        check_resumed(target, (tmp_path / "whole.npy").read_bytes(), n_done)

    @pytest.mark.faults
    def test_killed_at_any_time(self, tmp_path):
        run(tmp_path / "whole.npy")
        whole = (tmp_path / "whole.npy").read_bytes()
        for trial in range(20):
            target = tmp_path / f"{trial}.npy"
            check_resumed(
                target, whole, killed_once(target, trial % 8 + 1, pause=0.01 + 0.002 * trial)
            )


class Cut(Exception):
    pass


def interrupted(target, after, texts=TEXTS, **options):
    def cut(stage, done, total):
        if stage == "encoding" and done >= after:
            raise Cut

    with pytest.raises(Cut):
        run(target, texts, progress=cut, **options)
    return target.with_name(f"{target.name}.partial")


class TestTornFiles:
    """What a power cut can leave: rows that the sidecar does not count, or half a file."""

    def test_rows_that_were_not_counted_are_made_again(self, target, tmp_path):
        run(tmp_path / "whole.npy")
        partial = interrupted(target, 40)
        rows = np.load(partial, mmap_mode="r+")
        rows[42:47] = 7.0
        rows.flush()
        assert run(target).n_computed == 50
        assert target.read_bytes() == (tmp_path / "whole.npy").read_bytes()

    @pytest.mark.parametrize("damage", ["cut", "gone", "other"])
    def test_a_file_that_is_not_the_one_written_is_made_again(self, target, tmp_path, damage):
        run(tmp_path / "whole.npy")
        partial = interrupted(target, 40)
        other = (tmp_path / "whole.npy").read_bytes().replace(b"'<f4'", b"'<i4'")
        partial.write_bytes(
            {"cut": partial.read_bytes()[:500], "gone": b"", "other": other}[damage]
        )
        assert run(target).n_computed == 90
        assert target.read_bytes() == (tmp_path / "whole.npy").read_bytes()

    def test_only_the_block_of_an_item_that_was_replaced_is_encoded_again(self, target):
        interrupted(target, 60)
        changed = [*TEXTS[:35], "replaced", *TEXTS[36:]]
        assert run(target, changed).n_computed == 40
        np.testing.assert_allclose(np.load(target), Letters().encode(changed), rtol=1e-6)

    def test_a_block_that_is_being_replaced_counts_no_more(self, target):
        """Else the old item, put back after a kill, would be taken for a row half written."""
        run(target)
        changed = ["replaced", *TEXTS[1:40], "replaced", *TEXTS[41:]]
        interrupted(target, 80, changed)
        assert n_blocks(target) == 8
        assert run(target).n_computed == 20

    def test_a_smaller_batch_goes_on_with_the_rest(self, target, expected):
        interrupted(target, 60)
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
        assert run(target).n_computed == 20  # the two blocks with replaced items
        np.testing.assert_allclose(np.load(target), Letters().encode(TEXTS), rtol=1e-6)

    def test_ten_are_named(self, target):
        with pytest.raises(
            InputError, match=r"^12 of 90 .*row 29 \(it says so itself\) and 2 more; replace them"
        ):
            run(target, self.texts(12))

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
        if after < 90:
            interrupted(target, after, texts, skip_bad=True)
        else:
            run(target, texts, skip_bad=True)
        with pytest.raises(InputError) as caught:
            run(target, texts)
        with pytest.raises(InputError) as fresh:
            run(target.with_name("fresh.npy"), texts)
        assert str(caught.value) == str(fresh.value)
        assert target.exists() == (after == 90)
        assert len(run(target, texts, skip_bad=True).skipped) == 3
        assert run(target).skipped == ()

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
        with alone(target), pytest.raises(InputError, match="Another process is writing"):
            run(target)

    def test_a_place_that_cannot_be_written(self, tmp_path):
        (tmp_path / "file").write_text("")
        with pytest.raises(InputError, match="cannot be made"):
            run(tmp_path / "file" / "rows.npy")

    @pytest.mark.skipif(sys.platform == "win32", reason="needs a limit on the size of files")
    def test_a_disk_without_room_is_one_sentence_before_anything_is_encoded(self, target, expected):
        import resource

        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (128 + 45 * 32, limits[1]))
        try:
            with pytest.raises(
                InputError,
                match=r"no room for features of 3,008 bytes in .* \(File too large\)",
            ):
                run(target)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert run(target).n_computed == 90
        np.testing.assert_allclose(np.load(target), expected, rtol=1e-6)
