"""Watermarks by hand beside transformers' classes: the same scores, the same findings; and every name that users import is there."""

import types

import numpy
import pytest

import cadenza

CONFIG = types.SimpleNamespace(vocab_size=4096, bos_token_id=None, is_encoder_decoder=False)
GREENLISTS = [dict(bias=4.0), dict(greenlist_ratio=0.4, hashing_key=99), dict(seeding_scheme="selfhash", context_width=3)]


def marked(dictionary, **settings):
    return dictionary.generate(
        numpy.array([[360, 336, 292, 305, 299]] * 2), do_sample=True, seed=3, min_new_tokens=60, max_new_tokens=60,
        watermarking_config=cadenza.WatermarkingConfig(**settings),
    )[:, 5:]  # fmt: skip


@pytest.mark.parametrize("settings", GREENLISTS)
def test_detector(dictionary, settings):
    transformers = pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    ids = marked(dictionary, **settings)
    theirs = transformers.WatermarkDetector(CONFIG, "cpu", transformers.WatermarkingConfig(**settings))
    ours = cadenza.WatermarkDetector(CONFIG, "cpu", cadenza.WatermarkingConfig(**settings))
    want, got = theirs(torch.tensor(ids), return_dict=True), ours(ids, return_dict=True)
    for name, value in vars(want).items():
        assert getattr(got, name).dtype == value.dtype and numpy.allclose(getattr(got, name), value, rtol=1e-6), name
    assert (ours(ids, z_threshold=1.0) == theirs(torch.tensor(ids), z_threshold=1.0)).all()


def test_detector_finds_it(dictionary):
    ids = marked(dictionary, bias=8.0)
    assert cadenza.WatermarkDetector(CONFIG, "cpu", {"bias": 8.0})(ids).all()
    assert not cadenza.WatermarkDetector(CONFIG, "cpu", {"bias": 8.0, "hashing_key": 5})(ids).any()
    for wrong in (None, {"ngram_len": 5, "keys": [1]}, {"greenlist_ratio": 2.0}):
        with pytest.raises(ValueError):
            cadenza.WatermarkDetector(CONFIG, "cpu", wrong)
    with pytest.raises(ValueError, match="at least `1` token"):
        cadenza.WatermarkDetector(CONFIG, "cpu", {"bias": 8.0})([[5]])
    with pytest.raises(ValueError, match="computed on the CPU"):
        cadenza.WatermarkDetector(CONFIG, "cuda", {"bias": 8.0})


@pytest.mark.parametrize("settings", GREENLISTS)
def test_greenlist_processor(settings):
    transformers = pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    dice = torch.Generator().manual_seed(1)
    ids, scores = torch.randint(0, 300, (3, 6), generator=dice), torch.randn(3, 300, generator=dice)
    theirs = transformers.WatermarkLogitsProcessor(300, "cpu", **settings)(ids, scores.clone())
    ours = cadenza.WatermarkLogitsProcessor(300, "cpu", **settings)(ids, scores.clone())
    assert torch.equal(ours, theirs)


def test_synthid_processor():
    transformers = pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    dice = torch.Generator().manual_seed(1)
    settings = dict(ngram_len=4, keys=[654, 400, 836, 123], sampling_table_size=2**16, sampling_table_seed=0, context_history_size=64)
    theirs = transformers.SynthIDTextWatermarkLogitsProcessor(device="cpu", **settings)
    ours = cadenza.SynthIDTextWatermarkLogitsProcessor(device="cpu", **settings)
    ids = torch.randint(0, 300, (2, 6), generator=dice)
    for _ in range(4):
        scores = torch.randn(2, 300, generator=dice)
        want = theirs(ids, scores.clone())
        assert torch.allclose(ours(ids, scores.clone()), want, atol=1e-4)
        ids = torch.cat([ids, want.argmax(-1, keepdim=True)], 1)


def test_names_that_users_import():
    transformers = pytest.importorskip("transformers")
    generation = pytest.importorskip("transformers.generation")
    named = {name for names in generation._import_structure.values() for name in names}
    names = named | {name for name in dir(transformers) if name.endswith("Cache") and hasattr(transformers.cache_utils, name)}
    assert names - set(dir(cadenza)) == set(cadenza._ABSENT)
    assert len(names) > 50
    for name in sorted(named - set(cadenza._ABSENT)):
        assert getattr(cadenza.generation, name) is getattr(cadenza, name)


@pytest.mark.parametrize("package", ["cadenza", "cadenza.generation"])
def test_absent_names_say_why(package):
    module = __import__(package, fromlist=["GenerationConfig"])
    for name, why in cadenza._ABSENT.items():
        with pytest.raises(ImportError) as caught:
            exec(f"from {package} import {name}")
        assert str(caught.value) == f"cannot import name {name!r} from {package!r}: {why}"
        assert not hasattr(module, name)
    with pytest.raises(ImportError, match="cannot import name 'NoSuchName'"):
        exec(f"from {package} import NoSuchName")
