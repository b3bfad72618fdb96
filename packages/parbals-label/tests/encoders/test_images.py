"""What cannot be read as an image is named; what can be read comes out as a person sees it."""

import struct
import warnings
import zlib

import numpy as np
import pytest
from parbals.errors import InputError
from parbals_label.encoders import BadItem, Options, embed, load_encoder
from parbals_label.encoders.images import CLIP, IMAGENET, Preprocess, open_image

PIL = pytest.importorskip("PIL.Image", reason="images need Pillow")


@pytest.fixture
def photo(tmp_path):
    """Write a picture: reddish left, bluish right, brighter downwards."""

    def call(name="photo.png", size=(40, 30), mode="RGB", **options):
        width, height = size
        pixels = np.zeros((height, width, 3), np.uint8)
        pixels[:, : width // 2, 0], pixels[:, width // 2 :, 2] = 200, 200
        pixels[:, :, 1] = np.linspace(0, 255, height)[:, None]
        path = tmp_path / name
        PIL.fromarray(pixels).convert(mode).save(path, **options)
        return path

    return call


def bomb(path, side=30_000):
    """A PNG of a few hundred bytes whose header claims side² pixels."""

    def chunk(kind, body):
        return (
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        )

    head = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    content = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(bytes(100))) + chunk(b"IEND", b"")
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + content)
    return path


class TestOpening:
    @pytest.mark.parametrize("name", ["a.png", "a.jpg", "a.gif", "a.webp", "a.bmp"])
    def test_the_five_formats_of_the_web(self, photo, name):
        pixels = np.asarray(open_image(photo(name)), int)
        assert pixels.shape == (30, 40, 3)
        assert pixels[15, 5, 0] > 150 > 60 > pixels[15, 5, 2]

    @pytest.mark.parametrize("mode", ["L", "P", "RGBA", "CMYK", "1"])
    def test_every_mode_becomes_rgb(self, photo, mode):
        path = photo("a.jpg" if mode == "CMYK" else "a.png", mode=mode)
        assert open_image(path).mode == "RGB"

    def test_sixteen_bits_of_grey_keep_their_shades(self, tmp_path):
        shades = np.linspace(0, 65_535, 64).astype(np.uint16).reshape(8, 8)
        PIL.fromarray(shades).save(tmp_path / "deep.png")
        np.testing.assert_array_equal(
            np.asarray(open_image(tmp_path / "deep.png"))[:, :, 0], shades >> 8
        )

    def test_arrays_of_pixels(self):
        colours = np.random.default_rng(0).integers(0, 256, (5, 6, 3)).astype(np.uint8)
        np.testing.assert_array_equal(np.asarray(open_image(colours)), colours)
        assert open_image(colours[:, :, 0]).size == (6, 5)

    def test_a_photo_is_upright_as_its_camera_meant_it(self, photo):
        exif = PIL.Exif()
        exif[0x0112] = 6  # the camera was turned to the right
        turned = open_image(photo("turned.jpg", exif=exif))
        assert turned.size == (30, 40)
        pixels = np.asarray(turned, int)
        assert pixels[5, 15, 0] > 150 > pixels[35, 15, 0]  # what was left is now on top

    @pytest.mark.parametrize("kind", ["tiff", "eps", "ppm", "ico"])
    def test_other_formats_are_refused_whatever_they_are_called(self, photo, kind):
        path = photo(f"a.{kind}").rename(photo().with_name("innocent.png"))
        with pytest.raises(BadItem, match="cannot identify"):
            open_image(path)

    @pytest.mark.parametrize("side", [10_000, 30_000])
    def test_a_bomb_is_refused_unread(self, tmp_path, side):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with pytest.raises(BadItem, match=r"too many|exceeds limit"):
                open_image(bomb(tmp_path / "bomb.png", side))

    def test_what_is_cut_missing_or_no_file(self, photo, tmp_path):
        path = photo("cut.jpg", size=(200, 200))
        path.write_bytes(path.read_bytes()[:1000])
        for wrong, said in (
            (path, "truncated"),
            (tmp_path / "none.png", "no such file"),
            (tmp_path, "no such file"),
        ):
            with pytest.raises(BadItem, match=said):
                open_image(wrong)


class TestPreprocess:
    def test_the_middle_of_the_picture_at_the_size_of_the_model(self, photo):
        pixels = CLIP.pixels(photo(size=(500, 300)))
        assert pixels.shape == (224, 224, 3)
        assert pixels.dtype == np.uint8
        assert pixels[:, :100, 0].mean() > 150 > 50 > pixels[:, 124:, 0].mean()

    def test_a_strip_of_pixels_does_not_grow_without_end(self, photo):
        """Scaled to 224 pixels of height, this would be 11 million pixels wide."""
        assert CLIP.pixels(photo(size=(50_000, 1))).shape == (224, 224, 3)

    @pytest.mark.parametrize("size", [(500, 300), (301, 403), (32, 32), (224, 224)])
    @pytest.mark.parametrize("which", ["clip", "dinov2"])
    def test_it_is_what_transformers_does(self, photo, which, size):
        pytest.importorskip("torch", reason="the reference needs torch")
        pytest.importorskip("transformers", reason="transformers is the reference")
        from transformers.models.bit.image_processing_pil_bit import BitImageProcessorPil
        from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

        ours, theirs = (
            (CLIP, CLIPImageProcessorPil())
            if which == "clip"
            else (
                IMAGENET,
                BitImageProcessorPil(
                    size={"shortest_edge": 256},
                    image_mean=list(IMAGENET.mean),
                    image_std=list(IMAGENET.std),
                ),
            )
        )
        path = photo(size=size)
        made = (ours.pixels(path) / 255.0 - ours.mean) / ours.std
        wanted = theirs(PIL.open(path), return_tensors="np")["pixel_values"][0]
        np.testing.assert_allclose(made.transpose(2, 0, 1), wanted, atol=1e-5)

    def test_a_models_own_configuration_is_followed(self):
        config = {
            "size": {"height": 96, "width": 96},
            "image_mean": [0.5] * 3,
            "image_std": [0.25] * 3,
            "resample": 2,
        }
        assert Preprocess.from_config(config, IMAGENET) == Preprocess(
            96, 96, (0.5,) * 3, (0.25,) * 3, 2, True
        )
        config = {
            "size": {"shortest_edge": 64},
            "crop_size": {"height": 48, "width": 48},
            "do_center_crop": True,
        }
        made = Preprocess.from_config(config, IMAGENET)
        assert (made.resize, made.crop, made.mean, made.square) == (64, 48, IMAGENET.mean, False)
        assert Preprocess.from_config({}, IMAGENET) == IMAGENET
        assert Preprocess.from_config({"do_normalize": False}, IMAGENET).std == (1.0,) * 3


class TestBadImages:
    @pytest.fixture
    def paths(self, photo, tmp_path):
        paths = [photo(f"{i}.png", size=(20 + i, 20)) for i in range(8)]
        paths[2].write_bytes(b"not an image")
        bomb(paths[5])
        paths[6].unlink()
        return paths

    def run(self, paths, **options):
        named = lambda: ((path.name, path) for path in paths)  # noqa: E731
        return embed(load_encoder("shapes"), "shapes", named, len(paths), Options(**options))

    def test_every_bad_image_is_named_with_its_reason(self, paths):
        with pytest.raises(InputError) as caught:
            self.run(paths)
        said = str(caught.value)
        assert said.startswith("3 of 8 images cannot be read: 2.png (cannot identify")
        assert "5.png (" in said
        assert "6.png (there is no such file)" in said
        assert "--skip-bad" in said

    def test_on_request_they_are_left_out_and_listed(self, paths):
        made = self.run(paths, skip_bad=True)
        assert [bad[:2] for bad in made.skipped] == [(2, "2.png"), (5, "5.png"), (6, "6.png")]
        assert made.rows.shape == (8, 1092)
        assert np.isfinite(made.rows).all()

    def test_rows_follow_the_bytes_of_the_files_not_their_names(self, paths):
        good = [path for i, path in enumerate(paths) if i not in (2, 5, 6)]
        self.run(good)
        moved = [path.rename(path.with_name(f"moved {path.name}")) for path in good]
        assert self.run(moved).n_computed == 0
        moved[0].write_bytes(moved[1].read_bytes())
        assert self.run(moved).n_computed == 5
