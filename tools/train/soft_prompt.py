"""Trains the vectors of plugins/soft_prompt: behind them a model says at once what kind of thing a word is.

    python soft_prompt.py ../../models/pocket-dictionary --out ../../plugins/soft_prompt/soft_prompt.safetensors

Prompt tuning (Lester et al. 2021) by hand: the vectors alone learn, from what the model itself says of the words of its vocabulary.
The file is as PEFT writes it. Some minutes on two cores."""
import argparse
import random
import re

import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

VECTORS, WORDS, STEPS, BATCH, RATE = 8, 600, 60, 24, 0.01


def kinds(model, tokenizer):
    """(prompt, answer) of each word whose definition names its kind."""
    words = sorted({w[1:] for w in tokenizer.get_vocab() if re.fullmatch("Ġ[a-z]{4,}", w)})
    random.shuffle(words)
    pairs = []
    for i in range(0, WORDS, 100):
        prompts = [f"{w} (noun):" for w in words[i:i + 100]]
        given = tokenizer(prompts, return_tensors="pt", padding=True, padding_side="left")
        said = model.generate(input_ids=given.input_ids, attention_mask=given.attention_mask, do_sample=False, max_new_tokens=48)
        for prompt, ids in zip(prompts, said[:, given.input_ids.shape[1]:]):
            found = re.search(r"is a kind of ([a-z ]+)\.", tokenizer.decode(ids))
            if found:
                pairs.append((prompt, f" a kind of {found[1]}."))
    return pairs


def loss_of(model, soft, rows):
    """rows: ids, and how many of them are the prompt."""
    longest = max(len(ids) for ids, _ in rows)
    ids, labels = torch.zeros(len(rows), longest, dtype=torch.long), torch.full((len(rows), VECTORS + longest), -100)
    for i, (row, n) in enumerate(rows):
        ids[i, :len(row)] = torch.tensor(row)
        labels[i, VECTORS + n:VECTORS + len(row)] = torch.tensor(row[n:])
    embeds = torch.cat([soft.expand(len(rows), -1, -1), model.get_input_embeddings()(ids)], 1)
    return model(inputs_embeds=embeds, labels=labels).loss


def main():
    options = argparse.ArgumentParser()
    options.add_argument("model")
    options.add_argument("--out", required=True)
    options = options.parse_args()
    torch.manual_seed(1)
    random.seed(1)
    model = AutoModelForCausalLM.from_pretrained(options.model, dtype=torch.float32).requires_grad_(False).eval()
    tokenizer = AutoTokenizer.from_pretrained(options.model)
    rows = []
    for prompt, answer in kinds(model, tokenizer):
        ids = tokenizer(prompt + answer).input_ids + [tokenizer.convert_tokens_to_ids("<|endoftext|>")]
        rows.append((ids, len(tokenizer(prompt).input_ids)))
    held, rows = rows[:20], rows[20:]
    start = torch.randint(100, 4000, (VECTORS,))
    soft = model.get_input_embeddings()(start).clone().requires_grad_(True)
    optimizer = torch.optim.Adam([soft], lr=RATE)
    for step in range(STEPS):
        loss = loss_of(model, soft, random.sample(rows, BATCH))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 9:
            with torch.no_grad():
                print(f"step {step + 1}: {loss.item():.3f}, held out {loss_of(model, soft, held).item():.3f}", flush=True)
    save_file({"prompt_embeddings": soft.detach().bfloat16().contiguous()}, options.out, metadata={"format": "pt"})
    print(f"{len(rows)} words")
    soft = soft.detach().bfloat16().float()
    for word in ("river", "guitar", "dog", "music"):
        ids = tokenizer(f"{word} (noun):", return_tensors="pt").input_ids
        embeds = torch.cat([soft[None], model.get_input_embeddings()(ids)], 1)
        print(word, model.generate(inputs_embeds=embeds, do_sample=False, max_new_tokens=16)[0].tolist())


if __name__ == "__main__":
    main()
