"""Writes ../tekken: a small tekken.json, Mistral's own tokenizer file, and what tiktoken's rule makes of texts.

    python make_tekken.py --corpus FOLDER

Needs tokenizers (to train the vocabulary) and regex; --corpus: UTF-8 text files to train on. The rule is written out below;
--compare asks tiktoken the same. Beside what is trained there are tokens of two letters in random
order, most of which no merge of others reaches: there ties between equal tokens decide."""
import argparse
import base64
import json
import os
import random
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import regex  # noqa: E402
import texts  # noqa: E402
from build import corpus_lines  # noqa: E402
from tokenizers import Tokenizer, models, pre_tokenizers, trainers  # noqa: E402
from transformers.convert_slow_tokenizer import bytes_to_unicode  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
UP, LO = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
PATTERN = rf"[^\r\n\p{{L}}\p{{N}}]?{UP}*{LO}+|[^\r\n\p{{L}}\p{{N}}]?{UP}+{LO}*|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
SPECIALS = ["<unk>", "<s>", "</s>", "[INST]", "[/INST]", "<pad>"]
N_SPECIAL, N_TOKENS, N_LISTED = 20, 1000, 1040


def train(corpus):
    """Ranks 0 to 255 are the bytes; tokens of two letters are put between the others."""
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tok.train_from_iterator(corpus, trainers.BpeTrainer(vocab_size=1300, initial_alphabet=list(bytes_to_unicode().values()), show_progress=False))
    back = {c: b for b, c in bytes_to_unicode().items()}
    by_id = sorted(tok.get_vocab().items(), key=lambda x: x[1])
    trained = [t for t in (bytes(back[c] for c in text) for text, _ in by_id) if len(t) > 1]
    rng = random.Random(21)
    odd = list(dict.fromkeys("".join(rng.choice("xz") for _ in range(rng.randint(2, 7))).encode() for _ in range(150)))
    tokens = [t for t in trained if set(t) - set(b"xz")][: N_LISTED - 256 - len(odd)]
    for i, t in enumerate(odd):
        tokens.insert(5 * i, t)
    return [bytes([i]) for i in range(256)] + tokens


def merge(ranks, piece):
    """tiktoken's byte_pair_merge."""
    if piece in ranks:
        return [ranks[piece]]
    parts = [piece[i : i + 1] for i in range(len(piece))]
    while len(parts) > 1:
        rank, at = min((ranks.get(parts[i] + parts[i + 1], 1 << 40), i) for i in range(len(parts) - 1))
        if rank == 1 << 40:
            break
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
    return [ranks[p] for p in parts]


def encode(ranks, specials, text):
    """Special tokens are cut out first, as a chat template needs it; mistral-common never reads them in a text."""
    ids = []
    for part in regex.split("(" + "|".join(regex.escape(s) for s in sorted(specials, key=len, reverse=True)) + ")", text):
        if part in specials:
            ids.append(specials[part])
        else:
            ids += [N_SPECIAL + i for m in regex.finditer(PATTERN, part) for i in merge(ranks, m.group().encode())]
    return ids


def decode(listed, specials, ids):
    names = {i: t for t, i in specials.items()}
    out = b"".join(names[i].encode() if i in names else listed[i - N_SPECIAL] for i in ids)
    return out.decode(errors="replace")


def compare(config, listed, cases, specials):
    import tiktoken

    ranks = {t: i for i, t in enumerate(listed[: N_TOKENS - N_SPECIAL])}
    theirs = tiktoken.Encoding("tekken", pat_str=config["pattern"], mergeable_ranks=ranks, special_tokens={})
    plain = [c for c in cases if not any(s in c["text"] for s in specials)]
    for c in plain:
        assert [N_SPECIAL + i for i in theirs.encode_ordinary(c["text"])] == c["ids_no_special"], c
    print("tiktoken agrees on", len(plain))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--corpus", required=True)
    parser.add_argument("--compare", action="store_true")
    args = parser.parse_args()
    listed = train([line.rstrip("\n") for line in corpus_lines(args.corpus, 20000)])
    assert len(listed) == len(set(listed)) == N_LISTED
    ranks = {t: i for i, t in enumerate(listed[: N_TOKENS - N_SPECIAL])}
    specials = {t: i for i, t in enumerate(SPECIALS)} | {f"<SPECIAL_{i}>": i for i in range(len(SPECIALS), N_SPECIAL)}
    vocab = []
    for i, t in enumerate(listed):
        try:
            text = t.decode()
        except UnicodeDecodeError:
            text = None
        vocab.append({"rank": i, "token_bytes": base64.b64encode(t).decode(), "token_str": text})
    folder = os.path.join(HERE, "..", "tekken")
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, "tekken.json")
    config = {"pattern": PATTERN, "num_vocab_tokens": N_LISTED, "default_vocab_size": N_TOKENS, "default_num_special_tokens": N_SPECIAL, "version": "v7"}
    with open(path, "w") as f:
        json.dump({"config": config, "vocab": vocab, "special_tokens": [{"rank": i, "token_str": t, "is_control": True} for i, t in enumerate(SPECIALS)]}, f, indent=0)
    rng = random.Random(22)
    odd = [("ties", " ".join("".join(rng.choice("xz") for _ in range(rng.choice([5, 9, 17, 120]))) for _ in range(3))) for _ in range(60)]
    chat = [("special", "<s>[INST] Two</s><SPECIAL_7>2[/INST]</s>"), ("special", "[INST[INST]<SPECIAL_20>")]
    cases = []
    for kind, text in chat + odd + texts.all_texts(SPECIALS, 14, 20):
        if len(text) <= 400:
            ids = encode(ranks, specials, text)
            whole = [specials["<s>"]] + ids
            cases.append({"kind": kind, "text": text, "ids": whole, "ids_no_special": ids, "decoded": decode(listed, specials, whole),
                          "decoded_skip_special": decode(listed, specials, [i for i in whole if i >= N_SPECIAL])})
    with open(os.path.join(folder, "cases.json"), "w") as f:
        json.dump(cases, f, separators=(",", ":"))
    if args.compare:
        compare(config, listed, cases, specials)
    print(len(listed), len(cases))


if __name__ == "__main__":
    main()
