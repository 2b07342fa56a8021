#!/usr/bin/env python3
"""Writes the hostile inputs in the folders beside it: tests/attacks/{json,safetensors,config}/.

They are committed; this says how each was made. The replay_* tests run the readers on them and expect no crash; the
sentences they must end in are asserted by test_json, test_safetensors and test_load, which make larger ones themselves.
"""
import os
import struct

HERE = os.path.dirname(os.path.abspath(__file__))


def write(folder, name, data):
    os.makedirs(os.path.join(HERE, folder), exist_ok=True)
    with open(os.path.join(HERE, folder, name), "wb") as f:
        f.write(data if isinstance(data, bytes) else data.encode())


def tensors(name, header, data=b"", length=None):
    header = header if isinstance(header, bytes) else header.encode()
    n = len(header) if length is None else length
    write("safetensors", name + ".safetensors", struct.pack("<Q", n) + header + data)


def entry(dtype="F32", shape="[1]", begin=0, end=4):
    return '{"dtype":"%s","shape":%s,"data_offsets":[%d,%d]}' % (dtype, shape, begin, end)


def json_attacks():
    write("json", "deep_arrays", "[" * 5000)
    write("json", "deep_objects", '{"a":' * 3000)
    write("json", "repeated_name", '{"a":1,"\\u0061":2}')
    write("json", "too_large", "[1e400]")
    write("json", "beyond_double_integers", "[9007199254740993,-0,1E+]")
    write("json", "leading_zero", "01")
    write("json", "long_number", "1" * 20000)
    write("json", "lone_surrogates", '["\\ud800","\\udc00"]')
    write("json", "nul_in_name", '{"a\\u0000":1,"a":2}')
    write("json", "byte_order_mark", b"\xef\xbb\xbf{}")
    write("json", "nan", "[NaN,Infinity]")
    write("json", "comment", "// one\n{}")
    write("json", "trailing_junk", "{} x")
    write("json", "two_documents", "{}{}")
    write("json", "overlong", b'"\xc0\xaf"')
    write("json", "past_unicode", b'"\xf4\x90\x80\x80"')
    write("json", "spaces", " " * 20000)
    whole = '{"a": [1, -2.5e+3, "x\\u00e9"], "b": null}'
    for cut in range(0, len(whole), 5):
        write("json", "cut_at_%02d" % cut, whole[:cut])


def safetensors_attacks():
    for n in (0, 1, 7, 9, 2**63, 2**64 - 1):
        tensors("length_%d" % n, b"", bytes(8), length=n)
    tensors("leading_space", " {}")
    tensors("trailing_nul", b"{}\0")
    tensors("invalid_utf8", b'{"\xff":' + entry().encode() + b"}", bytes(4))
    tensors("repeated_name", '{"a":%s,"a":%s}' % (entry(), entry()), bytes(4))
    tensors("shared_range", "{" + ",".join('"%d":%s' % (i, entry()) for i in range(500)) + "}", bytes(4))
    tensors("begin_after_end", '{"a":%s}' % entry(begin=8, end=4), bytes(8))
    tensors("gap", '{"a":%s}' % entry(begin=4, end=8), bytes(8))
    tensors("past_end", '{"a":%s}' % entry(shape="[2]", end=8), bytes(4))
    tensors("trailing_data", '{"a":%s}' % entry(), bytes(9))
    tensors("product_wraps", '{"a":%s}' % entry(shape="[4294967296,4294967296]", end=0))
    tensors("product_wraps_by_type", '{"a":%s}' % entry("F64", "[288230376151711744]", end=0))
    tensors("negative_size", '{"a":%s}' % entry(shape="[-1]"), bytes(4))
    tensors("real_size", '{"a":%s}' % entry(shape="[1e300]"), bytes(4))
    tensors("many_dimensions", '{"a":%s}' % entry(shape="[%s]" % ",".join(["1"] * 300)), bytes(4))
    tensors("unknown_type", '{"a":%s}' % entry("F31"), bytes(4))
    tensors("half_a_byte", '{"a":%s}' % entry("F4", "[3]", end=2), bytes(2))
    tensors("odd_address", '{"a":%s,"b":%s}' % (entry("U8", "[1]", 0, 1), entry("F16", "[2]", 1, 5)), bytes(5))
    tensors("nested_metadata", '{"__metadata__":{"a":{"b":[1]}}}')
    for name, shard in (("up", "../x.safetensors"), ("absolute", "/dev/zero.safetensors"), ("itself", "index.json"),
                        ("nul", "a\\u0000.safetensors")):
        write("safetensors", "index_%s.json" % name, '{"weight_map":{"a":"%s"}}' % shard)


def config_attacks():
    sizes = '"hidden_size":64,"intermediate_size":96,"num_hidden_layers":4,"num_attention_heads":4,"vocab_size":100'
    for name, keys in (
        ("no_heads", '"num_key_value_heads":0'),
        ("indivisible", '"num_key_value_heads":3'),
        ("huge_context", '"max_position_embeddings":1e300'),
        ("negative_window", '"sliding_window":-5'),
        ("rope_in_itself", '"rope_scaling":{"rope_scaling":{"rope_scaling":{}}}'),
        ("rope_zero", '"rope_scaling":{"type":"linear","factor":0}'),
        ("theta_tiny", '"rope_theta":1e-300'),
        ("layer_types_flood", '"layer_types":[%s]' % ",".join(['"full_attention"'] * 2000)),
        ("wrong_types", '"head_dim":{},"hidden_act":[],"rms_norm_eps":"x","tie_word_embeddings":3'),
    ):
        for family in ("llama", "qwen2", "mistral"):
            write("config", "%s_%s.json" % (family, name), '{"model_type":"%s",%s,%s}' % (family, sizes, keys))


json_attacks()
safetensors_attacks()
config_attacks()
