"""The families of 2025-2026: tiny models for make_goldens.py (`--plan families`), and the cases of each.

    python make_goldens.py make --plan families [--only NAME,NAME]

"""
import json, math, os
import numpy as np
import torch
import transformers as tf
from safetensors.torch import load_file, save_file
from make_goldens import M, build, rope, run

IDS = dict(bos_token_id=1, eos_token_id=2, pad_token_id=0)
NOEOS = dict(eos_token_id=None)


# ---------------------------------------------------------------- weights
def init_family(model, seed, gain=1.6, emb=1.0, head=0.55, gate=0.5, bias=0.2, zero=(), flip=False, up=1.0, last=1.0, dt=-1.5, ff=1.0, extra=None, qk=1.0, ssm=1.0):
    """Every parameter, then every persistent buffer, from one numpy stream in the order of the sorted names.
    zero: norms whose weight counts from zero (1 + w): name parts; None among them is the default for all norms that are not listed otherwise."""
    rng = np.random.default_rng(seed)
    every = dict(model.named_parameters())
    persistent = set(model.state_dict())
    for n, t in model.named_buffers():
        if n in persistent and ("correction_bias" in n or "expert_bias" in n):
            every[n] = t
    for name in sorted(every):
        p, n = every[name], name.lower()
        leaf = n.split(".")
        z = rng.standard_normal(tuple(p.shape)).astype(np.float32)
        u = rng.random(tuple(p.shape)).astype(np.float32)
        if extra and (w := extra(n, p, z, u)) is not None:
            pass
        elif leaf[-1] == "a_log":
            w = np.log(0.3 + 2.7 * u)
        elif leaf[-1] == "dt_bias":
            w = dt + 0.7 * z
        elif leaf[-1] == "d":
            w = 1 + 0.4 * z
        elif "conv1d" in leaf or (leaf[-2] == "conv" and p.dim() == 3):
            w = 0.5 * z if p.dim() == 3 else bias * z
        elif leaf[-1] == "sinks":
            w = 0.5 + z
        elif "correction_bias" in n or "expert_bias" in n:
            w = 0.15 * z
        elif leaf[-1].endswith("bias"):
            w = bias * z
        elif p.dim() == 1:
            w = 0.3 * z if any(s in n for s in zero) else np.clip(1 + 0.25 * z, 0.3, 1.8)
        elif "lm_head" in n:
            w = head * z
        elif "embed" in n and leaf[-1] == "weight":
            w = emb * z
        elif leaf[-2] == "gate" or "router" in n:
            w = gate * z
        else:
            fan = p.shape[-2] if p.dim() == 3 and "gptoss" in type(model).__name__.lower() else p.shape[-1]
            if p.dim() == 3 and "llama4" in type(model).__name__.lower():
                fan = p.shape[-2]
            w = gain / math.sqrt(fan) * z
            if "gate_up_proj" in n:
                w = w * up
            if any(s in leaf for s in ("q_proj", "k_proj")):
                w = w * qk
            if leaf[-1] == "down_proj" or "down_proj" in leaf or leaf[-2] in ("w2", "output_linear"):
                w = w * ff
            if leaf[-2] in ("out_proj",):
                w = w * ssm
            if last != 1.0 and f"layers.{model.config.num_hidden_layers - 1}." in n and any(s in n for s in ("o_proj", "down_proj", "out_proj")):
                w = w * last
        if flip and n in ("model.norm.weight", "backbone.norm_f.weight", "model.final_layernorm.weight", "model.embedding_norm.weight"):
            one = 1.0 if any(s in n for s in zero) else 0.0
            w = np.where(rng.random(w.shape) < 0.5, -1, 1) * (w + one) - one
        p.data.copy_(torch.from_numpy(np.ascontiguousarray(w.astype(np.float32))))
    model.tie_weights()


def fam(cfg, seed, init=None, **kw):
    """a model spec: the weights of init_family"""
    init = dict(init or {})

    def make(c, s, **_):
        torch.manual_seed(s)
        c._attn_implementation = "eager"
        m = tf.AutoModelForCausalLM.from_config(c, attn_implementation="eager").float().eval()
        init_family(m, s, **init)
        return m
    return dict(cfg=cfg, seed=seed, build=make, **kw)


# ---------------------------------------------------------------- MXFP4
FP4 = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]


def mxfp4(w):
    """w [E, rows, n], blocks of 32 along n -> blocks uint8 [E, rows, n/32, 16], scales uint8 [E, rows, n/32]"""
    E, R, n = w.shape
    x = w.reshape(E, R, n // 32, 32).double()
    e = torch.floor(torch.log2(x.abs().amax(-1).clamp_min(1e-30))) - 2
    v = x / torch.exp2(e)[..., None]
    grid = torch.tensor(FP4, dtype=torch.float64)
    idx = (v.abs()[..., None] - grid).abs().argmin(-1)
    code = (idx + 8 * (v < 0)).to(torch.uint8)
    return (code[..., 0::2] | (code[..., 1::2] << 4)).contiguous(), (e + 127).to(torch.uint8)


def pack_mxfp4(path):
    """expert weights of a saved gpt_oss as MXFP4 (the layout of the published checkpoints), config.json with quantization_config"""
    f = os.path.join(path, "model.safetensors")
    t = load_file(f)
    out = {}
    for k, v in t.items():
        if k.endswith(("experts.gate_up_proj", "experts.down_proj")):
            out[k + "_blocks"], out[k + "_scales"] = mxfp4(v.float().transpose(1, 2).contiguous())
        else:
            out[k] = v
    save_file(dict(sorted(out.items())), f, metadata={"format": "pt"})
    g = os.path.join(path, "config.json")
    c = json.load(open(g))
    c["quantization_config"] = {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]}
    json.dump(c, open(g, "w"), indent=2, sort_keys=True)


def rename(old, new):
    """the name a tensor has in published checkpoints, where save_pretrained of 5.3.0 writes another"""
    def after(path):
        f = os.path.join(path, "model.safetensors")
        t = load_file(f)
        assert any(old in k for k in t)
        save_file(dict(sorted((k.replace(old, new), v) for k, v in t.items())), f, metadata={"format": "pt"})
    return after


G3N = rename("per_layer_model.language_model_projection", "per_layer_model_projection")
NEMO = rename("backbone.embedding.weight", "backbone.embeddings.weight")


# ---------------------------------------------------------------- models
QZERO = ("layernorm", "q_norm", "k_norm", "model.norm")  # 1 + w; the gated norm of the delta net counts from one
Q35ROPE = dict(mrope_section=[1, 1, 0], mrope_interleaved=True)

MODELS = {
    "gpt_oss": fam(lambda: tf.GptOssConfig(vocab_size=256, hidden_size=32, intermediate_size=32, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
                   num_local_experts=6, num_experts_per_tok=2, sliding_window=8, max_position_embeddings=256,
                   rope_parameters=rope(150000.0, rope_type="yarn", factor=8.0, beta_fast=32.0, beta_slow=1.0, truncate=False, original_max_position_embeddings=32), **IDS),
                   6101, dict(up=2.2, bias=0.3)),
    "gpt_oss_mxfp4": fam(lambda: tf.GptOssConfig(vocab_size=256, hidden_size=64, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=1, head_dim=16,
                         num_local_experts=4, num_experts_per_tok=2, sliding_window=12, max_position_embeddings=256,
                         rope_parameters=rope(150000.0, rope_type="yarn", factor=4.0, beta_fast=32.0, beta_slow=1.0, truncate=False, original_max_position_embeddings=64), **IDS),
                         6102, dict(up=1.8, bias=0.3), after=pack_mxfp4),
    "deepseek_v3": fam(lambda: tf.DeepseekV3Config(vocab_size=256, hidden_size=32, intermediate_size=56, moe_intermediate_size=16, num_hidden_layers=3, num_attention_heads=4,
                       num_key_value_heads=4, n_shared_experts=1, n_routed_experts=8, routed_scaling_factor=1.8, kv_lora_rank=16, q_lora_rank=20, qk_rope_head_dim=8, v_head_dim=10,
                       qk_nope_head_dim=12, n_group=4, topk_group=2, num_experts_per_tok=3, first_k_dense_replace=1, norm_topk_prob=True, max_position_embeddings=256, rms_norm_eps=1e-5,
                       rope_parameters=rope(10000.0, rope_type="yarn", factor=8.0, beta_fast=32.0, beta_slow=1.0, mscale=1.0, mscale_all_dim=1.0, original_max_position_embeddings=32), **IDS),
                       6103, dict(gate=0.45)),
    "deepseek_v2": fam(lambda: tf.DeepseekV2Config(vocab_size=256, hidden_size=32, intermediate_size=56, moe_intermediate_size=16, num_hidden_layers=3, num_attention_heads=4,
                       num_key_value_heads=4, n_shared_experts=2, n_routed_experts=6, routed_scaling_factor=1.4, kv_lora_rank=16, q_lora_rank=None, qk_rope_head_dim=8, v_head_dim=12,
                       qk_nope_head_dim=12, topk_method="greedy", num_experts_per_tok=2, first_k_dense_replace=1, norm_topk_prob=False, max_position_embeddings=256,
                       rope_parameters=rope(10000.0), **IDS), 6104),
    "qwen3_next": fam(lambda: tf.Qwen3NextConfig(vocab_size=256, hidden_size=32, intermediate_size=48, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
                      linear_conv_kernel_dim=4, linear_key_head_dim=8, linear_value_head_dim=12, linear_num_key_heads=2, linear_num_value_heads=4, moe_intermediate_size=16,
                      shared_expert_intermediate_size=24, num_experts=6, num_experts_per_tok=2, norm_topk_prob=True, mlp_only_layers=[1], max_position_embeddings=256,
                      rms_norm_eps=1e-5, rope_parameters=rope(10000.0, partial_rotary_factor=0.25), **IDS), 9105, dict(zero=QZERO, gain=1.3, ssm=0.5)),
    "qwen3_5": fam(lambda: tf.Qwen3_5TextConfig(vocab_size=256, hidden_size=32, intermediate_size=56, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
                   linear_conv_kernel_dim=4, linear_key_head_dim=8, linear_value_head_dim=8, linear_num_key_heads=2, linear_num_value_heads=4, max_position_embeddings=256,
                   rms_norm_eps=1e-4, tie_word_embeddings=True, rope_parameters=rope(1000000.0, partial_rotary_factor=0.25, **Q35ROPE), **IDS), 9106,
                   dict(zero=QZERO, emb=0.5, gain=1.3, ssm=0.5, flip=True)),
    "qwen3_5_moe": fam(lambda: tf.Qwen3_5MoeTextConfig(vocab_size=256, hidden_size=32, num_hidden_layers=4, num_attention_heads=2, num_key_value_heads=1, head_dim=16,
                       linear_conv_kernel_dim=4, linear_key_head_dim=8, linear_value_head_dim=8, linear_num_key_heads=2, linear_num_value_heads=4, moe_intermediate_size=16,
                       shared_expert_intermediate_size=16, num_experts=6, num_experts_per_tok=2, max_position_embeddings=256,
                       rms_norm_eps=1e-5, rope_parameters=rope(1000000.0, partial_rotary_factor=0.5, mrope_section=[2, 1, 1], mrope_interleaved=True), **IDS), 8107,
                       dict(zero=QZERO, gain=1.3, ssm=0.5)),
    "granitemoehybrid": fam(lambda: tf.GraniteMoeHybridConfig(vocab_size=256, hidden_size=32, intermediate_size=20, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2,
                            embedding_multiplier=3.0, logits_scaling=2.0, residual_multiplier=0.6, attention_multiplier=0.2, num_local_experts=4, num_experts_per_tok=2,
                            shared_intermediate_size=28, position_embedding_type="nope", layer_types=["mamba", "mamba", "attention", "mamba"], mamba_n_heads=8, mamba_n_groups=1, mamba_d_state=12,
                            mamba_d_head=8, mamba_d_conv=4, mamba_expand=2, mamba_chunk_size=8, max_position_embeddings=256, tie_word_embeddings=False, **IDS), 6108, dict(head=1.0, gain=2.0)),
    "mamba2": fam(lambda: tf.Mamba2Config(vocab_size=256, hidden_size=32, num_heads=8, head_dim=8, expand=2, state_size=16, n_groups=2, num_hidden_layers=3, conv_kernel=4, chunk_size=8,
                  tie_word_embeddings=False, **IDS), 6109, dict(gain=2.0, head=0.6)),
    "falcon_h1": fam(lambda: tf.FalconH1Config(vocab_size=256, hidden_size=32, intermediate_size=56, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, head_dim=12,
                     mamba_d_ssm=48, mamba_n_heads=6, mamba_d_head=8, mamba_n_groups=1, mamba_d_state=16, mamba_d_conv=4, mamba_chunk_size=8, mamba_rms_norm=False, max_position_embeddings=256,
                     rope_parameters=rope(100000.0), lm_head_multiplier=0.8, embedding_multiplier=1.7, mlp_multipliers=[0.9, 0.6], key_multiplier=0.7, attention_out_multiplier=0.8,
                     attention_in_multiplier=1.1, ssm_multipliers=[0.8, 0.6, 1.2, 0.7, 0.9], ssm_in_multiplier=1.3, ssm_out_multiplier=0.9, **IDS), 6110, dict(gain=2.0, head=0.8)),
    "lfm2": fam(lambda: tf.Lfm2Config(vocab_size=256, hidden_size=32, intermediate_size=60, num_hidden_layers=5, num_attention_heads=4, num_key_value_heads=2, conv_L_cache=3, block_multiple_of=16,
                block_ffn_dim_multiplier=1.0, block_auto_adjust_ff_dim=True, layer_types=["conv", "conv", "full_attention", "conv", "full_attention"], tie_word_embeddings=True, max_position_embeddings=256,
                rope_parameters=rope(1000000.0), **IDS), 6111, dict(emb=0.5, gain=2.2, flip=True)),
    "nemotron_h": fam(lambda: tf.NemotronHConfig(vocab_size=256, hidden_size=32, layers_block_type=["mamba", "moe", "attention", "mamba", "moe"], num_attention_heads=4, num_key_value_heads=2, head_dim=12,
                      ssm_state_size=12, mamba_num_heads=6, mamba_n_groups=2, mamba_head_dim=8, mamba_d_conv=4, mamba_chunk_size=256, intermediate_size=40, n_routed_experts=6, n_shared_experts=1,
                      moe_intermediate_size=20, moe_shared_expert_intermediate_size=24, num_experts_per_tok=2, routed_scaling_factor=1.5, n_group=1, topk_group=1, max_position_embeddings=256,
                      use_mamba_kernels=False, **IDS), 6112, dict(gain=1.8), after=NEMO),
    "gemma3n": fam(lambda: tf.Gemma3nTextConfig(vocab_size=256, vocab_size_per_layer_input=256, hidden_size=32, hidden_size_per_layer_input=8, intermediate_size=[48] * 6, num_hidden_layers=6, num_attention_heads=4,
                   num_key_value_heads=2, head_dim=12, sliding_window=8, layer_types=["sliding_attention", "sliding_attention", "full_attention"] * 2, final_logit_softcapping=9.0,
                   altup_num_inputs=3, num_kv_shared_layers=2, laurel_rank=8, activation_sparsity_pattern=[0.8, 0.8, 0.0, 0.0, 0.0, 0.0], max_position_embeddings=256, pad_token_id=0, eos_token_id=1, bos_token_id=2,
                   rope_parameters={"full_attention": rope(1000000.0), "sliding_attention": rope(10000.0)}), 6113, dict(emb=0.5, gain=1.6, flip=True), after=G3N),
    "llama4": fam(lambda: tf.Llama4TextConfig(vocab_size=256, hidden_size=32, intermediate_size=24, intermediate_size_mlp=56, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2, head_dim=12,
                  num_experts_per_tok=1, num_local_experts=4, interleave_moe_layer_step=2, use_qk_norm=True, no_rope_layer_interval=4, attention_chunk_size=8, attn_temperature_tuning=True, floor_scale=8,
                  attn_scale=0.3, max_position_embeddings=256, rope_parameters=rope(500000.0, rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=64), **IDS), 6114),
    "cohere2": fam(lambda: tf.Cohere2Config(vocab_size=256, hidden_size=32, intermediate_size=56, logit_scale=0.3, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2, sliding_window=8,
                   tie_word_embeddings=True, max_position_embeddings=256, rope_parameters=rope(50000.0), **IDS), 6115, dict(emb=0.9, gain=2.2, flip=True)),
    "olmo3": fam(lambda: tf.Olmo3Config(vocab_size=256, hidden_size=32, intermediate_size=56, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2, sliding_window=8, max_position_embeddings=256,
                 rope_parameters=rope(500000.0), **IDS), 6116),
    "exaone4": fam(lambda: tf.Exaone4Config(vocab_size=256, hidden_size=32, intermediate_size=56, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2, sliding_window=8, sliding_window_pattern=4,
                   max_position_embeddings=256, rope_parameters=rope(1000000.0, rope_type="llama3", factor=16.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=64), **IDS), 6117),
    "glm4_moe": fam(lambda: tf.Glm4MoeConfig(vocab_size=256, hidden_size=32, intermediate_size=56, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, head_dim=16, attention_bias=True,
                    moe_intermediate_size=16, num_experts_per_tok=2, n_shared_experts=1, n_routed_experts=6, routed_scaling_factor=1.6, n_group=1, topk_group=1, first_k_dense_replace=1, norm_topk_prob=True,
                    use_qk_norm=True, max_position_embeddings=256, rope_parameters=rope(1000000.0, partial_rotary_factor=0.5), **IDS), 6118, dict(gate=0.45)),
    "ernie4_5_moe": fam(lambda: tf.Ernie4_5_MoeConfig(vocab_size=256, hidden_size=32, intermediate_size=56, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, moe_intermediate_size=16, moe_k=2,
                        moe_num_experts=6, moe_num_shared_experts=2, moe_layer_start_index=1, tie_word_embeddings=False, max_position_embeddings=256, rope_parameters=rope(500000.0), **IDS), 6119, dict(gate=0.3)),
    "minimax_m2": fam(lambda: tf.MiniMaxM2Config(vocab_size=256, hidden_size=32, intermediate_size=16, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, head_dim=16, num_experts_per_tok=2,
                      num_local_experts=6, max_position_embeddings=256, rope_parameters=rope(5000000.0, partial_rotary_factor=0.5), **IDS), 6120, dict(gate=0.45)),
    "glm4": fam(lambda: tf.Glm4Config(vocab_size=256, hidden_size=32, intermediate_size=56, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, head_dim=16, attention_bias=True,
                max_position_embeddings=256, rope_parameters=rope(10000.0, partial_rotary_factor=0.5), **IDS), 6121),
    "granite": fam(lambda: tf.GraniteConfig(vocab_size=256, hidden_size=32, intermediate_size=56, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, embedding_multiplier=3.0, logits_scaling=1.6,
                   residual_multiplier=0.5, attention_multiplier=0.2, tie_word_embeddings=True, max_position_embeddings=256, rope_parameters=rope(10000.0), **IDS), 6122, dict(emb=0.6, gain=2.4, flip=True)),
    "seed_oss": fam(lambda: tf.SeedOssConfig(vocab_size=256, hidden_size=32, intermediate_size=56, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, head_dim=12, attention_bias=True,
                    attention_out_bias=False, max_position_embeddings=256, rope_parameters=rope(10000000.0), **IDS), 6123),
    "hunyuan_v1_dense": fam(lambda: tf.HunYuanDenseV1Config(vocab_size=256, hidden_size=32, intermediate_size=56, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, head_dim=12, tie_word_embeddings=True,
                            max_position_embeddings=256, rope_parameters=rope(10000.0, rope_type="dynamic", alpha=1000.0, factor=1.0), **IDS), 6124, dict(emb=0.6, gain=2.4, flip=True)),
    "lfm2_moe": fam(lambda: tf.Lfm2MoeConfig(vocab_size=256, hidden_size=32, intermediate_size=56, moe_intermediate_size=16, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2, conv_L_cache=3,
                    num_dense_layers=1, num_experts_per_tok=2, num_experts=6, use_expert_bias=True, routed_scaling_factor=1.3, norm_topk_prob=True, layer_types=["conv", "full_attention", "conv", "conv"],
                    tie_word_embeddings=True, max_position_embeddings=256, rope_parameters=rope(1000000.0), **IDS), 6125, dict(emb=0.5, gain=2.2, flip=True, gate=0.45)),
}


# ---------------------------------------------------------------- cases
def like_uncached(b):
    """every call gave what a model without a cache gives"""
    def check(c, e):
        n = len(c["prompt_ids"][0])
        for call, x in zip([c] + c.get("calls", []), [e] + e.get("calls", [])):
            k = {**call["kwargs"], "use_cache": False}
            p = {"id": c["id"], "mode": c["mode"], "kwargs": k, "prompt_ids": [r[:-k["max_new_tokens"]] for r in x["sequences"]]}
            if "attention_mask" in c:
                p["attention_mask"] = [m + [1] * (len(r) - len(m)) for m, r in zip(c["attention_mask"], p["prompt_ids"])]
            if run(b.ctx, p)["sequences"] != x["sequences"]:
                return False
        return True
    return check


def steady(b):
    """rounding of the embeddings moves no logit by half of what the tolerance allows"""
    def check(c, e):
        if b.ctx.cfg.model_type.startswith("gemma3n"):
            return True
        M.on = False
        ids = torch.tensor(c["prompt_ids"])
        x = b.ctx.model.get_input_embeddings()(ids)
        f = lambda y: b.ctx.model(inputs_embeds=y, use_cache=False).logits[0].float()
        base, g = f(x), torch.Generator().manual_seed(1)
        worst = max(float(((f(x * (1 + 2e-7 * torch.randn(x.shape, generator=g))) - base).abs() / (1e-4 + 1e-4 * base.abs())).max()) for _ in range(3))
        M.on = True
        return worst < 0.5
    return check


def families(b, seed=0, early=None, long=40, nb=3, new=40):
    """the suite of every family: 12 to 14 cases"""
    stateful = b.ctx.model._is_stateful or b.ctx.cfg.model_type.startswith("lfm2")
    pure = b.ctx.cfg.model_type == "mamba2"
    # transformers 5.3.0 does not move the states of mamba2 with the beams: the reference is without a cache
    # and its falcon_h1 with mamba_rms_norm cannot decode more than one row with a cache (a squeezed dimension is broadcast)
    one_row = getattr(b.ctx.cfg, "mamba_rms_norm", False)
    BK = dict(use_cache=False) if pure or one_row else {}
    RK = dict(use_cache=False) if one_row else {}
    b.logits("logits/prompt0", 23, check=steady(b))
    b.logits("logits/long", 80 if "qwen3" in b.ctx.cfg.model_type else long, check=steady(b))
    b.greedy("greedy/0", 9, new, check=b.varied(12), **NOEOS)
    if not b.ctx.cfg.model_type.startswith("lfm2"):
        b.greedy("greedy/1", 24, 32, check=b.varied(10), **NOEOS)
    # temperature tuning (llama4) counts padding as positions: only rows of one length are the same alone
    tuned = getattr(b.ctx.cfg, "attn_temperature_tuning", False)
    L = (lambda *x: [max(x)] * len(x)) if tuned else (lambda *x: list(x))
    if tuned:
        b.greedy("quirk/padded_rows_temperature", [5, 19, 8], 16, top=3, optional=True, check=lambda c, e: any(
            run(b.ctx, {"id": c["id"], "mode": "greedy", "kwargs": c["kwargs"], "prompt_ids": [r[-sum(m):]]})["sequences"][0][sum(m):] != o[len(r):]
            for r, m, o in zip(c["prompt_ids"], c["attention_mask"], e["sequences"])), **NOEOS)
    b.greedy("batch/0", L(5, 11, 8), 24, top=3, **NOEOS, **RK)
    b.eos("eos/batch", L(5, 11, 2), 24) if not one_row else b.eos("eos/one_row", 9, 24)
    b.beam("beam/plain", 9, 14, nb, num_return_sequences=2, length_penalty=1.0, **NOEOS, **BK)
    b.beam("beam/batch_eos", L(9, 4), 12, nb, eos=0 if one_row else 1, num_return_sequences=2, length_penalty=0.8, **BK, **(NOEOS if one_row else {}))
    b.sample("sample/0", 9, 20, 11 + seed, temperature=0.8, top_k=20, top_p=0.95, **NOEOS)
    b.sample("sample/batch", L(7, 3), 16, 12 + seed, temperature=1.0, top_k=0, **NOEOS, **RK)
    b.proc("proc/repetition_ngram", lambda r, d, pl: dict(repetition_penalty=1.3, no_repeat_ngram_size=2, **NOEOS), lens=12)
    if stateful:
        # no rollback in transformers: neither prompt lookup nor a draft; and only one token at a time may follow a cache
        b.beam("beam/sampled", 8, 10, 3, seed=13 + seed, top_k=30, num_return_sequences=3, **NOEOS, **BK)
        lfm = b.ctx.cfg.model_type.startswith("lfm2")
        if not lfm:
            b.sample("sample/return_3", 6, 14, 14 + seed, temperature=1.1, top_k=40, num_return_sequences=3, **NOEOS, **RK)
        if pure:
            b.beam("quirk/beam_states_stay", 9, 12, 3, num_return_sequences=3, optional=True, check=lambda c, e: run(b.ctx, {**c, "kwargs": {**c["kwargs"], "use_cache": False}})["sequences"] != e["sequences"], **NOEOS)
        else:
            b.calls("cache/append_nothing", "greedy", 9, 7, [dict(append=0, new=9)], check=like_uncached(b))
        if lfm:
            b.greedy("prompt/one_token_no_cache", 1, 16, use_cache=False, **NOEOS)
            b.greedy("quirk/prompt_of_one_token", 1, 16, optional=True, check=lambda c, e: not like_uncached(b)(c, e), **NOEOS)
        return
    b.lookup("lookup/0", 16, 24, 4, 2)
    b.calls("cache/append_five", "greedy", 9, 8, [dict(append=5, new=10)], check=like_uncached(b) if not b.ctx.cfg.model_type.startswith("gemma3n") else None)
    if early:
        b.early_exit("assist/early_exit", 9, 16, early, **NOEOS)


PLANS = {n: families for n in MODELS}
for _n in ("deepseek_v3", "olmo3"):
    PLANS[_n] = lambda b: families(b, early=b.ctx.layers - 1)
