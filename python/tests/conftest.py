"""Models of the tests: golden folders by transformers' names for them, and the dictionary."""

import os
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDEN = pathlib.Path(os.environ.get("CADENZA_GOLDEN", ROOT / "tests" / "golden"))
DICTIONARY = ROOT / "models" / "pocket-dictionary"


@pytest.fixture(scope="session")
def golden():
    """Name of a golden model: its folder."""
    return lambda name: str(GOLDEN / name)


@pytest.fixture(scope="session")
def dictionary():
    import cadenza

    return cadenza.AutoModelForCausalLM.from_pretrained(DICTIONARY)


@pytest.fixture(scope="session")
def tokenizer():
    import cadenza

    return cadenza.AutoTokenizer.from_pretrained(DICTIONARY)


@pytest.fixture(scope="session")
def llama(golden):
    import cadenza

    return cadenza.AutoModelForCausalLM.from_pretrained(golden("llama_gqa"))
