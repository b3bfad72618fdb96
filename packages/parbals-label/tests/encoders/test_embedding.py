"""Rows are computed once, survive kill -9, and belong to what they were made of."""

import os
import signal
import subprocess
import sys
import time

import letters
import numpy as np
import pytest
from dose import full_count
from letters import NAME, TEXTS, Letters, named
from parbals.errors import InputError
from parbals_label.encoders import Options, embed, embedding


def run(texts=TEXTS, encoder=None, *, batch_size=4, skip_bad=False, **others):
    options = Options(batch_size=batch_size, skip_bad=skip_bad)
    return embed(encoder or Letters(), NAME, named(texts), len(texts), options, **others)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(embedding, "BLOCK", 10)


@pytest.fixture
def blocks(tmp_path):
    """The files of the blocks that are there."""
    return lambda: sorted((tmp_path / "cache" / "embeddings").glob("*.npy"))


@pytest.fixture
def expected():
    return Letters().encode(TEXTS)


class TestRows:
    def test_one_row_for_each_item_in_its_order(self, expected):
        calls = []
        made = run(progress=lambda *told: calls.append(told))
        assert (made.rows.shape, made.n_computed, made.skipped) == ((90, 8), 90, ())
        np.testing.assert_allclose(made.rows, expected, rtol=1e-6)
        assert calls[-1] == ("encoding", 90, 90)

    def test_items_of_similar_length_are_encoded_together(self, monkeypatch):
        monkeypatch.setattr(embedding, "BLOCK", 90)
        encoder = Letters()
        run(encoder=encoder)
        lengths = [len(text) for text in encoder.encoded]
        assert lengths == sorted(lengths)
        assert lengths != [len(text) for text in TEXTS]

    def test_half_precision_is_stored_as_such(self):
        encoder = Letters()
        encoder.dtype = "<f2"
        assert run(encoder=encoder).rows.dtype == np.float16


class TestReuse:
    def computed(self, encoder=None, **options):
        encoder = encoder or Letters()
        made = run(encoder=encoder, **options)
        assert len(encoder.encoded) == made.n_computed
        return made.n_computed

    def test_nothing_is_computed_twice_until_it_is_forgotten(self, blocks):
        made = run()
        assert self.computed() == 0
        assert run().rows.tobytes() == made.rows.tobytes()
        made.discard_cache()
        assert blocks() == []
        assert self.computed() == 90

    def test_what_nobody_came_back_for_in_a_month_is_removed(self, blocks):
        run()
        os.utime(blocks()[0], (0, 0))
        assert self.computed() == 10

    def test_other_items_or_another_model_make_new_rows(self):
        run()
        changed = [*TEXTS[:-1], "another last message"]
        assert self.computed(texts=changed) == 10  # the last block
        np.testing.assert_allclose(run(changed).rows, Letters().encode(changed), rtol=1e-6)
        assert self.computed(texts=changed, encoder=Letters("2")) == 90

    def test_two_texts_are_not_one_text_cut_elsewhere(self):
        run(["ab", "c"])
        assert self.computed(texts=["a", "bc"]) == 2

    @pytest.mark.parametrize("damage", [b"", b"no array"])
    def test_a_damaged_block_is_made_again(self, blocks, damage, expected):
        run()
        blocks()[3].write_bytes(damage)
        assert self.computed() == 10
        np.testing.assert_allclose(run().rows, expected, rtol=1e-6)


def killed_once(blocks, after_blocks, pause):
    """Kill a process that encodes when so many blocks are there; how many there are then."""
    process = subprocess.Popen([sys.executable, letters.__file__, str(pause)])
    try:
        while process.poll() is None:
            if len(blocks()) >= after_blocks:
                os.kill(process.pid, signal.SIGKILL)
                break
            time.sleep(0.005)
    finally:
        code = process.wait()
    assert code == -signal.SIGKILL, "the process ended before it could be killed"
    return len(blocks())


def check_resumed(whole, n_done):
    encoder = Letters()
    made = run(encoder=encoder)
    assert made.n_computed == len(encoder.encoded) == 90 - 10 * n_done
    assert sorted(encoder.encoded) == sorted(TEXTS[10 * n_done :])
    assert made.rows.tobytes() == whole
    made.discard_cache()


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
class TestKilled:
    def whole(self):
        made = run()
        made.discard_cache()
        return made.rows.tobytes()

    def test_only_missing_rows_are_computed_and_the_bytes_are_the_same(self, blocks):
        whole = self.whole()
        n_done = killed_once(blocks, 3, pause=0.05)
        assert 3 <= n_done < 9
        check_resumed(whole, n_done)

    @pytest.mark.faults
    def test_killed_at_any_time(self, blocks):
        whole = self.whole()
        for trial in range(full_count(20)):
            check_resumed(whole, killed_once(blocks, trial % 8 + 1, pause=0.01 + 0.002 * trial))


class Cut(Exception):
    pass


def interrupted(after, texts=TEXTS, **options):
    def cut(stage, done, total):
        if done >= after:
            raise Cut

    with pytest.raises(Cut):
        run(texts, progress=cut, **options)


class TestInterrupted:
    def test_only_the_block_of_an_item_that_was_replaced_is_encoded_again(self):
        interrupted(60)
        changed = [*TEXTS[:35], "replaced", *TEXTS[36:]]
        made = run(changed)
        assert made.n_computed == 40
        np.testing.assert_allclose(made.rows, Letters().encode(changed), rtol=1e-6)

    def test_a_smaller_batch_goes_on_with_the_rest(self, expected):
        interrupted(60)
        made = run(batch_size=1)
        assert made.n_computed == 30
        np.testing.assert_allclose(made.rows, expected, rtol=1e-6)


class TestBadItems:
    def texts(self, n_bad):
        return [f"BAD {i}" if 20 <= i < 20 + n_bad else text for i, text in enumerate(TEXTS)]

    def test_all_are_named_at_once_and_what_was_done_is_kept(self):
        texts = self.texts(3)
        texts[80] = "BAD 80"
        with pytest.raises(InputError) as caught:
            run(texts)
        assert str(caught.value).startswith(
            "4 of 90 texts cannot be read: row 20 (it says so itself), row 21 (it says so itself), "
            "row 22 (it says so itself), row 80 (it says so itself); replace them"
        )
        made = run()
        assert made.n_computed == 20  # the two blocks with replaced items
        np.testing.assert_allclose(made.rows, Letters().encode(TEXTS), rtol=1e-6)

    def test_ten_are_named(self):
        with pytest.raises(
            InputError, match=r"^12 of 90 .*row 29 \(it says so itself\) and 2 more; replace them"
        ):
            run(self.texts(12))

    @pytest.mark.parametrize("n_bad", [1, 25])
    def test_skipped_rows_are_the_mean_of_the_others_and_are_listed(self, n_bad):
        texts = self.texts(n_bad)
        made = run(texts, skip_bad=True)
        assert made.skipped == tuple(
            (i, f"row {i}", "it says so itself") for i in range(20, 20 + n_bad)
        )
        good = np.array([not text.startswith("BAD") for text in texts])
        np.testing.assert_allclose(
            made.rows[good], Letters().encode([t for t in texts if t[:3] != "BAD"]), rtol=1e-6
        )
        np.testing.assert_allclose(
            made.rows[~good], np.tile(made.rows[good].mean(axis=0), (n_bad, 1)), rtol=1e-5
        )
        assert run(texts, skip_bad=True).skipped == made.skipped

    @pytest.mark.parametrize("after", [40, 90])
    def test_what_an_earlier_call_skipped_stops_one_that_skips_nothing(self, after):
        """Whether the earlier call came to its end or not."""
        texts = self.texts(2)
        with pytest.raises(InputError) as fresh:
            run(texts)
        interrupted(after, texts, skip_bad=True)
        with pytest.raises(InputError) as caught:
            run(texts)
        assert str(caught.value) == str(fresh.value)

    def test_bad_items_before_the_first_good_one(self):
        texts = ["BAD"] * 25 + TEXTS[25:]
        made = run(texts, skip_bad=True)
        assert len(made.skipped) == 25
        np.testing.assert_allclose(made.rows[25:], Letters().encode(TEXTS[25:]), rtol=1e-6)

    def test_nothing_but_bad_items_is_refused(self, blocks):
        with pytest.raises(InputError, match="None of the 12 texts can be read"):
            run(["BAD"] * 12, skip_bad=True)
        assert blocks() == []


class TestRefused:
    def test_rows_that_cannot_be_features(self, blocks):
        encoder = Letters()
        for made, said in (
            (np.full((4, 8), np.nan, np.float32), r"not finite of row \d"),
            (np.zeros((3, 8), np.float32), r"float32 \(3, 8\) of 4 items"),
            (np.zeros((4, 8), np.int64), "int64"),
        ):
            encoder.encode = lambda prepared, made=made: made
            with pytest.raises(InputError, match=said):
                run(TEXTS[:4], encoder=encoder)
            assert blocks() == []

    def test_rows_that_change_their_length(self):
        encoder = Letters()
        encoder.encode = lambda prepared: np.zeros(
            (len(prepared), 3 if "message 1" in prepared[0] else 4), np.float32
        )
        with pytest.raises(InputError, match="rows of 3 numbers after rows of 4"):
            run([TEXTS[0], *TEXTS[10:20]], encoder=encoder, batch_size=1)

    @pytest.mark.parametrize(
        ("options", "said"), [({"batch_size": 0}, "batch size is 0"), ({"texts": []}, "no items")]
    )
    def test_settings_without_sense(self, options, said):
        with pytest.raises(InputError, match=said):
            run(**options)

    def test_a_place_that_cannot_be_written(self, tmp_path):
        (tmp_path / "cache").write_text("")
        with pytest.raises(InputError, match="cannot be written"):
            run()

    @pytest.mark.skipif(sys.platform == "win32", reason="needs a limit on the size of files")
    def test_a_disk_without_room_is_one_sentence_and_what_was_done_is_kept(self, expected):
        import resource

        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (128 + 45 * 32, limits[1]))
        try:
            with pytest.raises(
                InputError,
                match=r"no room for features of 2,880 bytes in .* \(File too large\)",
            ):
                run()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        made = run()
        assert made.n_computed == 80
        np.testing.assert_allclose(made.rows, expected, rtol=1e-6)
