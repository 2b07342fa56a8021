"""Pairs of encoder and decoder beside t5, bart and marian: tiny models for make_goldens.py (`--plan pairs`).

    python make_goldens.py make --plan pairs [--only NAME,NAME]

Weights are those of init_weights, with the norm before the head of mbart and its relatives turned: it has another name there than
in bart, whose last norm is its last layer's.
"""
import numpy as np
import torch
import transformers as tf
import transformers.models.m2m_100.modeling_m2m_100 as modeling_m2m_100
from golden_plan import encdec1
from make_goldens import build

T5 = dict(vocab_size=256, d_model=40, d_kv=12, num_heads=4, d_ff=64, num_layers=2, pad_token_id=0, eos_token_id=1, decoder_start_token_id=0)
BART = dict(vocab_size=256, d_model=40, encoder_layers=2, decoder_layers=3, encoder_attention_heads=4, decoder_attention_heads=5, encoder_ffn_dim=64,
            decoder_ffn_dim=56, max_position_embeddings=96)
TURNED = dict(emb=0.6, pos=0.8, gain=1.0, cross=0.5, ff=1.5, bias=0.05, center=True)


def turned(cfg, seed, **init):
    """a tied model whose last norm has both signs, so that a token does not predict itself for ever"""
    m = build(cfg, seed, **init)
    for stack in (m.model.encoder, m.model.decoder):
        w = stack.layer_norm.weight
        sign = np.where(np.random.default_rng(seed + 1).random(w.shape) < 0.5, -1, 1).astype(np.float32)
        w.data.mul_(torch.from_numpy(sign * 1.5))
    return m


MODELS = {
    "mt5": dict(cfg=lambda: tf.MT5Config(**T5, num_decoder_layers=2, relative_attention_num_buckets=16, relative_attention_max_distance=40),
                seed=7201, init=dict(t5=True, emb=0.5, cross=0.6, ff=4.0, flip=True), gen=dict(decoder_start_token_id=0)),
    "umt5": dict(cfg=lambda: tf.UMT5Config(**T5, num_decoder_layers=2), seed=7202, init=dict(t5=True, emb=0.5, cross=0.6, ff=4.0, flip=True),
                 gen=dict(decoder_start_token_id=0)),
    "pegasus": dict(cfg=lambda: tf.PegasusConfig(**BART, scale_embedding=True, activation_function="relu", pad_token_id=0, eos_token_id=1, decoder_start_token_id=0,
                    forced_eos_token_id=None), seed=7203, build=turned, init=dict(TURNED, emb=0.3), gen=dict(decoder_start_token_id=0, forced_eos_token_id=1)),
    "mbart": dict(cfg=lambda: tf.MBartConfig(**BART, scale_embedding=True, bos_token_id=0, pad_token_id=1, eos_token_id=2, decoder_start_token_id=2,
                  forced_eos_token_id=None), seed=7204, build=turned, init=dict(TURNED, emb=0.3),
                  gen=dict(decoder_start_token_id=2, forced_bos_token_id=7, forced_eos_token_id=2)),
    "m2m_100": dict(cfg=lambda: tf.M2M100Config(**BART, bos_token_id=0, pad_token_id=1, eos_token_id=2, decoder_start_token_id=2), seed=7205, build=turned,
                    init=dict(TURNED, emb=0.3), gen=dict(decoder_start_token_id=2, forced_bos_token_id=9)),
    "blenderbot_small": dict(cfg=lambda: tf.BlenderbotSmallConfig(**BART, scale_embedding=True, bos_token_id=1, pad_token_id=0, eos_token_id=2, decoder_start_token_id=1,
                             forced_eos_token_id=None), seed=7207, init=dict(emb=0.3, pos=0.8, gain=1.0, cross=0.5, ff=1.5, flip=True, bias=0.05, center=True),
                             gen=dict(decoder_start_token_id=1, forced_eos_token_id=2)),
    "blenderbot": dict(cfg=lambda: tf.BlenderbotConfig(**BART, bos_token_id=1, pad_token_id=0, eos_token_id=2, decoder_start_token_id=1, forced_eos_token_id=None),
                       seed=7206, build=turned, init=TURNED, gen=dict(decoder_start_token_id=1, encoder_no_repeat_ngram_size=3, forced_eos_token_id=2)),
}


PLANS = {n: encdec1 for n in MODELS}


class Undrawn:
    """torch whose rand([]) takes nothing from the generator"""
    def __getattr__(self, name):
        return getattr(torch, name)

    def rand(self, *size, **kw):
        return torch.zeros(()) if size == ([],) else torch.rand(*size, **kw)


def m2m_100(b):
    """Positions count the tokens that are not padding by their ids, whatever the mask says: those have no position. And each layer of each pass
    draws a random number, in evaluation too, where nothing reads it: a quirk, left out of the cases to match."""
    modeling_m2m_100.torch = torch
    b.sample("quirk/layers_draw", 12, 12, 85, temperature=0.9, top_k=20, eos_token_id=None, optional=True)
    modeling_m2m_100.torch = Undrawn()
    encdec1(b)
    b.greedy("positions/seen_padding", 13, 14, alphabet=[b.ctx.cfg.pad_token_id, 21, 40, 75, 90, 133, 200], eos_token_id=None,
             check=lambda c, e: 1 in c["prompt_ids"][0][2:9])


PLANS["m2m_100"] = m2m_100
