"""Writes ../variants.json: parts of tokenizer.json that the folders do not use, put into one of them, and what the
reference makes of a list of texts. Needs: tokenizers 0.22.2.

A variant: `base` (folder), `set` (members replaced), `set_model` (members of the model replaced), `add` (added tokens
appended), `cases`: `text`, `ids`, `offsets`, `ids_special` (with the post-processor), `ids_plain` (special tokens in the
text read as text)."""
import copy
import json
import os

from tokenizers import Tokenizer

import build as B

HERE = os.path.dirname(os.path.abspath(__file__))
TEXTS = [
    "", " ", "Hello  world\n", "It's 12345 o'clock, WE'LL see \u00bd\u00b2\u2167.",
    "a\u00a0b\r\n\r\n  c\t\td", "ABcD\u01c5e \u02b0x\u00aaB \u4e2d\u6587\u30fc\u304b!!//\n", "<tok><tok <tokk>x[A]<ls>",
    "x  <ls>  <rs>  y <lr> z", "<sw> a<sw>b <sw>", "\u00e9<nz> e\u0301<nz> e\u0301 \u00e9", "\u0120<rs>\u0120 \u0301<sw>",
    "n\u0303o \u1100\u1161\u11a8 \u0344 o\u0302\u0323 \ud55c", "\U00011935\U00011930 \u1ac1\u0323", "'\u017f 's 'S",
    "<tok>" * 3 + " \u3000<lr>\u3000 ", "\x00\U0001f600\u200d\U0001f9ff \u0663\u0664",
]


def split(pattern, behavior="Isolated", invert=False, kind="Regex"):
    return {"type": "Split", "pattern": {kind: pattern}, "behavior": behavior, "invert": invert}


def bytelevel(prefix=False, regex=False):
    return {"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": True, "use_regex": regex}


def seq(*parts):
    return {"type": "Sequence", "pretokenizers": list(parts)}


def token(content, **flags):
    return {"id": 9999, "content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
            "special": False, **flags}


ADD = [token("<tok>"), token("<tok"), token("<tokk>x"), token("[A]", special=True), token("<ls>", lstrip=True),
       token("<rs>", rstrip=True, special=True), token("<sw>", single_word=True), token("\u00e9<nz>", normalized=True),
       token("<lr>", lstrip=True, rstrip=True, normalized=True), token("\u00e9", normalized=True, single_word=True)]
NFC = {"type": "NFC"}
DIGITS = {"type": "Digits", "individual_digits": True}


def variants():
    patterns = {"gpt2": B.R_GPT2, "cl100k": B.R_CL100K, "cl100k possessive": B.R_CL100K_POSS, "qwen2": B.R_QWEN2,
                "qwen3.5": B.R_QWEN35, "o200k": B.R_O200K, "tekken": B.R_TEKKEN}
    for name, p in patterns.items():
        yield name, "qwen2", {"set": {"pre_tokenizer": seq(split(p), bytelevel())}}
    yield "deepseek coder", "qwen2", {"set": {"pre_tokenizer": seq(*[split(p) for p in B.R_DSCODER], DIGITS, bytelevel())}}
    yield "numbers, then gpt2", "gpt2", {"set": {"pre_tokenizer": seq(split(r"\p{N}"), bytelevel(regex=True))}}
    yield "digits together", "gpt2", {"set": {"pre_tokenizer": seq({"type": "Digits", "individual_digits": False},
                                                                   bytelevel(True, True))}}
    for invert in (False, True):
        for b in ("Isolated", "Removed", "Contiguous", "MergedWithPrevious", "MergedWithNext"):
            for name, s in (("number", split(r"\p{N}", b, invert)), ("literal", split(" ", b, invert, "String")),
                            ("deepseek", split(B.R_DS3[2], b, invert))):
                yield f"{name} {b}{' inverted' if invert else ''}", "gpt2", {"set": {"pre_tokenizer": seq(s, bytelevel())}}
    yield "prefix space", "qwen2", {"set": {"pre_tokenizer": bytelevel(True, True)}, "add": ADD}
    yield "prefix space without pattern", "qwen2", {"set": {"pre_tokenizer": bytelevel(True), "normalizer":
                                                            {"type": "Sequence", "normalizers": [NFC, NFC]}}, "add": ADD}
    yield "prefix space after a cut", "gpt2", {"set": {"pre_tokenizer": seq(split(B.R_QWEN2), bytelevel(True))}}
    for base in ("gpt2", "llama3", "qwen2", "deepseek"):
        yield f"added tokens, {base}", base, {"add": ADD}
    yield "trim without prefix", "qwen2", {"add": ADD, "set": {"post_processor": bytelevel()}}
    yield "trim with prefix", "qwen2", {"add": ADD, "set": {"post_processor": bytelevel(True)}}
    yield "no post-processor", "qwen2", {"add": ADD, "set": {"post_processor": None}}
    yield "ignore_merges", "gpt2", {"set_model": {"ignore_merges": True}}
    yield "one text, many flags", "qwen2", {"add": ADD + [
        token("<tok>", special=True), token("<tok>", lstrip=True), token("[A]"), token("zz"),
        token("zz", rstrip=True, special=True), token("Hello", lstrip=True), token("")]}


def chain(key, *parts):
    return {"type": "Sequence", key: list(parts)}


CHAR_ADD = [token("<ls>", lstrip=True), token("Hello", normalized=True), token("\u00e9", normalized=True, single_word=True),
            token("<rs>", rstrip=True, special=True)]
ROBERTA = {"type": "RobertaProcessing", "sep": ["</s>", 2], "cls": ["<s>", 1], "trim_offsets": True, "add_prefix_space": True}


def char_variants():
    """Models over characters: llama2 and phi3 (BPE), t5 (Unigram), bert (WordPiece), wordlevel."""
    for scheme in ("always", "first", "never"):
        meta = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": scheme, "split": True}
        yield f"metaspace {scheme}", "phi3", {"set": {"pre_tokenizer": meta}, "add": CHAR_ADD}
        yield f"strip, metaspace {scheme}", "t5", {"set": {"pre_tokenizer": meta, "normalizer": {
            "type": "Strip", "strip_left": True, "strip_right": False}}}
    for form in ("NFC", "NFD", "NFKC", "NFKD"):
        lower = chain("normalizers", {"type": form}, {"type": "Lowercase"}, {"type": "Replace", "pattern": {"String": " "},
                                                                             "content": "\u2581"})
        yield f"{form}, lower case", "llama2", {"set": {"normalizer": lower}, "add": CHAR_ADD}
        yield f"{form}, word level", "wordlevel", {"set": {"normalizer": lower, "pre_tokenizer": {"type": "WhitespaceSplit"}}}
    yield "unknowns apart, no bytes", "llama2", {"set_model": {"fuse_unk": False, "byte_fallback": False}}
    yield "unknowns fused, no bytes", "llama2", {"set_model": {"fuse_unk": True, "byte_fallback": False}}
    yield "unknowns dropped", "llama2", {"set_model": {"unk_token": None, "byte_fallback": False}}
    yield "end of word", "llama2", {"set_model": {"end_of_word_suffix": "</w>", "byte_fallback": False},
                                    "set": {"pre_tokenizer": {"type": "BertPreTokenizer"}}}
    yield "whole pieces first", "phi3", {"set_model": {"ignore_merges": True}}
    yield "byte-level Unigram", "t5", {"set": {"pre_tokenizer": bytelevel(True, True), "post_processor": ROBERTA}}
    yield "Roberta around Unigram", "t5", {"set": {"post_processor": ROBERTA}, "add": CHAR_ADD}
    yield "Nmt", "t5", {"set": {"normalizer": {"type": "Nmt"}}}
    yield "byte-level normalizer", "phi3", {"set": {"normalizer": {"type": "ByteLevel"}, "post_processor": bytelevel(True)}}
    yield "short words", "bert", {"set_model": {"max_input_chars_per_word": 3}}
    yield "no prefix inside words", "bert", {"set_model": {"continuing_subword_prefix": ""}, "add": CHAR_ADD}
    yield "cased Bert", "bert", {"set": {"normalizer": {"type": "BertNormalizer", "clean_text": False, "strip_accents": None,
                                                        "handle_chinese_chars": True, "lowercase": False}}}
    for name, part in (("scripts", {"type": "UnicodeScripts"}), ("fixed", {"type": "FixedLength", "length": 2}),
                       ("delimiter", {"type": "CharDelimiterSplit", "delimiter": "o"}),
                       ("punctuation", {"type": "Punctuation", "behavior": "MergedWithNext"})):
        yield f"cut by {name}", "llama2", {"set": {"normalizer": None, "pre_tokenizer": part}}


def assemble(base, parts):
    j = json.load(open(os.path.join(HERE, "..", base, "tokenizer.json"), encoding="utf-8"))
    j.update(copy.deepcopy(parts.get("set", {})))
    j["model"].update(parts.get("set_model", {}))
    j["added_tokens"] += copy.deepcopy(parts.get("add", []))
    return Tokenizer.from_str(json.dumps(j))


def record(tok, text):
    e = tok.encode(text, add_special_tokens=False)
    case = {"text": text, "ids": e.ids, "offsets": [list(o) for o in e.offsets], "ids_special": tok.encode(text).ids}
    tok.encode_special_tokens = True
    case["ids_plain"] = tok.encode(text, add_special_tokens=False).ids
    tok.encode_special_tokens = False
    return case


def main():
    out = []
    for name, base, parts in [*variants(), *char_variants()]:
        tok = assemble(base, parts)
        out.append({"name": name, "base": base, **parts, "cases": [record(tok, t) for t in TEXTS]})
    with open(os.path.join(HERE, "..", "variants.json"), "w", encoding="utf-8") as f:
        f.write("[\n" + ",\n".join(json.dumps(v, separators=(",", ":")) for v in out) + "\n]\n")
    print(len(out), "variants")


main()
