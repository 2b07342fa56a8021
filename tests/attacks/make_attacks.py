#!/usr/bin/env python3
"""Writes the hostile inputs in the folders beside it: tests/attacks/{json,safetensors,gguf,config,npy,manifest}/.

They are committed; this says how each was made. The replay_* tests run the readers on them and expect no crash; the
sentences they must end in are asserted by test_json, test_safetensors, test_gguf and test_load, which make larger ones themselves.
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


U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 = range(13)


def text(s):
    s = s if isinstance(s, bytes) else s.encode()
    return struct.pack("<Q", len(s)) + s


def key(name, kind, payload):
    return text(name) + struct.pack("<I", kind) + payload


def array(name, kind, count, payload=b""):
    return key(name, ARRAY, struct.pack("<IQ", kind, count) + payload)


def tensor(name, dims, kind=0, offset=0, n_dims=None):
    return (text(name) + struct.pack("<I", len(dims) if n_dims is None else n_dims) +
            b"".join(struct.pack("<Q", d) for d in dims) + struct.pack("<IQ", kind, offset))


def gguf(name, keys=(), tensors=(), data=b"", n_keys=None, n_tensors=None, magic=b"GGUF", version=3, folder="gguf"):
    head = magic + struct.pack("<IQQ", version, len(tensors) if n_tensors is None else n_tensors,
                               len(keys) if n_keys is None else n_keys) + b"".join(keys) + b"".join(tensors)
    pad = -len(head) % 32 if data else 0
    write(folder, name + ".gguf", head + bytes(pad) + data)


def gguf_attacks():
    one = [tensor("a", [8])]
    gguf("magic", magic=b"GGUX")
    gguf("magic_swapped", magic=b"FUGG")
    gguf("ggjt", magic=b"tjgg")
    gguf("version_0", version=0)
    gguf("version_1", version=1)
    gguf("version_4", version=4)
    gguf("big_endian", version=3 << 24)
    for n in (2**63, 2**64 - 1, 65537, 3):
        gguf("keys_%d" % n, n_keys=n)
        gguf("tensors_%d" % n, n_tensors=n)
    gguf("key_length_max", [struct.pack("<Q", 2**64 - 1)])
    gguf("key_empty", [key("", U8, b"\0")])
    gguf("key_nul", [key("a\0b", U8, b"\0")])
    gguf("key_long", [key("k" * 65536, U8, b"\0")])
    gguf("key_twice", [key("a.b", U8, b"\0"), key("a.b", U8, b"\1")])
    gguf("type_13", [key("a", 13, b"\0" * 8)])
    gguf("type_negative", [key("a", 2**32 - 1, b"\0" * 8)])
    gguf("bool_2", [key("a", BOOL, b"\2")])
    gguf("string_length_max", [key("a", STRING, struct.pack("<Q", 2**64 - 1) + b"x")])
    gguf("string_past_end", [key("a", STRING, struct.pack("<Q", 9) + b"x")])
    gguf("array_count_max", [array("a", U8, 2**64 - 1)])
    gguf("array_count_wraps", [array("a", U64, 2**61 + 1, bytes(64))])
    gguf("array_of_strings_past_end", [array("a", STRING, 2, text("x") + struct.pack("<Q", 2**63))])
    gguf("array_of_arrays", [key("a", ARRAY, struct.pack("<IQ", ARRAY, 1) * 100)])
    gguf("array_type", [array("a", 99, 1, bytes(8))])
    for n in (0, 3, 2**31):
        gguf("alignment_%d" % n, [key("general.alignment", U32, struct.pack("<I", n))], one, bytes(32))
    gguf("alignment_type", [key("general.alignment", U64, struct.pack("<Q", 32))], one, bytes(32))
    gguf("dims_0", [], [tensor("a", [], n_dims=0)], bytes(32))
    gguf("dims_5", [], [tensor("a", [1] * 5)], bytes(32))
    gguf("dims_max", [], [tensor("a", [1], n_dims=2**32 - 1)], bytes(32))
    gguf("dim_huge", [], [tensor("a", [2**42 + 1])], bytes(32))
    gguf("dim_negative", [], [tensor("a", [2**63])], bytes(32))
    gguf("product_wraps", [], [tensor("a", [2**32, 2**32])], bytes(32))
    gguf("product_wraps_by_type", [], [tensor("a", [2**62 + 4])], bytes(32))
    gguf("block_cut", [], [tensor("a", [48], kind=8)], bytes(64))
    gguf("type_unknown", [], [tensor("a", [8], kind=4)], bytes(32))
    gguf("type_far", [], [tensor("a", [8], kind=2**32 - 1)], bytes(32))
    gguf("offset_odd", [], [tensor("a", [8], offset=4)], bytes(64))
    gguf("offset_past_end", [], [tensor("a", [8], offset=64)], bytes(32))
    gguf("offset_max", [], [tensor("a", [8], offset=2**64 - 32)], bytes(32))
    gguf("overlap", [], [tensor("a", [16]), tensor("b", [8], offset=32)], bytes(64))
    gguf("tensor_twice", [], [tensor("a", [8]), tensor("a", [8], offset=32)], bytes(64))
    gguf("tensor_name_empty", [], [tensor("", [8])], bytes(32))
    gguf("tensor_name_long", [], [tensor("n" * 300, [8])], bytes(32))
    gguf("data_missing", [], one)
    gguf("split_second", [key("split.no", U16, b"\1\0"), key("split.count", U16, b"\3\0")])
    gguf("split_name", [key("split.no", U16, b"\0\0"), key("split.count", U16, b"\3\0")])
    gguf("split_alone-00001-of-00003", [key("split.no", U16, b"\0\0"), key("split.count", U16, b"\3\0")])
    itself = [key("split.no", U16, b"\0\0"), key("split.count", U16, b"\2\0")]
    gguf("split_itself-00001-of-00002", itself)
    gguf("split_itself-00002-of-00002", itself)
    gguf("split_type", [key("split.count", STRING, text("2"))])
    gguf("split_count", [key("split.count", I32, struct.pack("<i", -2))])
    whole = (b"GGUF" + struct.pack("<IQQ", 3, 1, 2) + key("general.architecture", STRING, text("llama")) +
             array("x", STRING, 2, text("a") + text("b")) + tensor("t", [8]))
    for cut in range(0, len(whole), 9):
        write("gguf", "cut_at_%03d.gguf" % cut, whole[:cut])

    def vocab(name, tokens=(b"<unk>", b"a", b"aa"), types=(2, 1, 1), scores=(0, 0, -1), kind="llama", more=(), tables=()):
        keys = [key("tokenizer.ggml.model", STRING, text(kind)),
                array("tokenizer.ggml.tokens", STRING, len(tokens), b"".join(text(t) for t in tokens))]
        if types:
            keys.append(array("tokenizer.ggml.token_type", I32, len(types), struct.pack("<%di" % len(types), *types)))
        if scores:
            keys.append(array("tokenizer.ggml.scores", F32, len(scores), struct.pack("<%df" % len(scores), *scores)))
        gguf("vocab_" + name, keys + list(more), tables, bytes(64) if tables else b"")

    vocab("none", kind="none")
    vocab("kind", kind="rwkv")
    vocab("pre", kind="gpt2", more=[key("tokenizer.ggml.pre", STRING, text("nowhere"))])
    vocab("no_tokens", tokens=())
    vocab("types_short", types=(1,))
    vocab("scores_long", scores=(0, 1, 2, 3))
    vocab("no_scores", scores=())
    vocab("types_float", types=(), more=[array("tokenizer.ggml.token_type", F32, 3, bytes(12))])
    vocab("utf8", tokens=(b"<unk>", b"\xc0\xaf", b"a"))
    vocab("long_token", tokens=(b"<unk>", b"a" * 5000, b"b"))
    vocab("eos", more=[key("tokenizer.ggml.eos_token_id", U32, struct.pack("<I", 3))])
    vocab("rows", tables=[tensor("token_embd.weight", [4, 2])])
    pre = [key("tokenizer.ggml.pre", STRING, text("gpt-2"))]
    vocab("merge_absent", kind="gpt2", more=pre + [array("tokenizer.ggml.merges", STRING, 1, text("a b"))])
    vocab("merge_one", kind="gpt2", more=pre + [array("tokenizer.ggml.merges", STRING, 1, text("ab"))])
    vocab("bytes", tokens=(b"<0x-1>", b"<0xZZ>", b"<0x"), types=(6, 6, 6))
    vocab("twice", tokens=(b"a", b"a", b""), types=(1, 3, 3))

    good = [key("general.architecture", STRING, text("llama")), key("x.real", F32, struct.pack("<f", 0.5)),
            array("x.texts", STRING, 2, text("a") + text("")), array("x.ints", I16, 3, struct.pack("<3h", -1, 0, 1)),
            key("x.yes", BOOL, b"\1"), key("x.int", I64, struct.pack("<q", -5))]
    tables = [tensor("blk.0.w", [32, 2], kind=8, offset=0), tensor("blk.0.b", [3], offset=96)]
    corpus = "../fuzz/corpus/gguf"
    gguf("kinds", good, tables, bytes(range(96)) + bytes(12), folder=corpus)
    gguf("version_2", good[:2], version=2, folder=corpus)
    for i in range(2):
        gguf("split-0000%d-of-00002" % (i + 1), [key("split.no", U16, struct.pack("<H", i)), key("split.count", U16, b"\2\0")],
             [tensor("part.%d" % i, [4])], struct.pack("<4f", *[i + j for j in range(4)]), folder=corpus)


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


def npy(name, shape, data=b"", descr="'<f4'", order="False", version=1, length=None, folder="npy", magic=b"\x93NUMPY"):
    head = ("{'descr': %s, 'fortran_order': %s, 'shape': %s, }" % (descr, order, shape)).encode()
    n = len(head) if length is None else length
    write(folder, name + ".npy", magic + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", n) + head + data)


def npy_attacks():
    npy("magic", "(1,)", bytes(4), magic=b"\x93NUMPX")
    npy("version_0", "(1,)", bytes(4), version=0)
    npy("version_9", "(1,)", bytes(4), version=9)
    npy("length_past_end", "(1,)", bytes(4), length=65535)
    npy("length_0", "(1,)", bytes(4), length=0)
    npy("length_max", "(1,)", bytes(4), version=2, length=2**32 - 1)
    npy("product_wraps", "(4294967296, 4294967296)")
    npy("product_wraps_by_type", "(4611686018427387905,)", bytes(4))
    npy("size_wraps", "(18446744073709551617,)", bytes(4))
    npy("negative", "(-1,)", bytes(4))
    npy("nothing_of_much", "(0, 18446744073709551615)")
    npy("nine_dimensions", "(1, 1, 1, 1, 1, 1, 1, 1, 1)", bytes(4))
    npy("open_shape", "(1, 1", bytes(4))
    npy("no_shape", "None", bytes(4))
    npy("too_few", "(2, 3)", bytes(23))
    npy("too_many", "(2, 3)", bytes(25))
    npy("doubles", "(1,)", bytes(8), descr="'<f8'")
    npy("objects", "(1,)", bytes(8), descr="'|O'")
    npy("columns", "(2, 3)", bytes(24), order="True")
    whole = b"\x93NUMPY\x01\0\x10\0{'descr': '<f4'}"
    for cut in (0, 5, 6, 8, 9, 10, 11, len(whole)):
        write("npy", "cut_at_%02d.npy" % cut, whole[:cut])
    npy("two", "(2, 3)", struct.pack("<6f", *range(6)), folder="../fuzz/corpus/npy")
    npy("version_2", "(4,)", struct.pack("<4f", *range(4)), version=2, folder="../fuzz/corpus/npy")
    npy("one", "()", struct.pack("<f", 1), folder="../fuzz/corpus/npy")


def manifest_attacks():
    good = "[plugin]\nid = org.example.x\nversion = 1.0.0\nkind = processor\n"
    for name, rest in (
        ("entry_up", "entry = ../../x.so\n"),
        ("entry_absolute", "entry = /bin/true\n"),
        ("entry_folder", "entry = sub/x.so\n"),
        ("entry_empty", "entry =\n"),
        ("entry_dots", "entry = ..\n"),
        ("entry_itself", "entry = plugin.ini\n"),
        ("entry_absent", "entry = x.so\n"),
        ("key_twice", "entry = x.so\nentry = y.so\n"),
        ("key_unknown", "entrée = x.so\n"),
        ("hash_short", "entry = x.so\nsha256 = 00\n"),
        ("section_open", "[plugin\nentry = x.so\n"),
        ("param_max_below_min", "entry = x.lua\n[param.a]\ntype = int\nmin = 5\nmax = 1\n"),
    ):
        write("manifest", name + ".ini", good + rest)
    write("manifest", "id_nul.ini", "[plugin]\nid = a\0b\n")
    write("manifest", "id_slash.ini", "[plugin]\nid = a/b\nversion = 1\nkind = processor\nentry = x.so\n")
    write("manifest", "id_long.ini", "[plugin]\nid = %s\n" % ("a" * 10000))
    write("manifest", "long.ini", good + "; x\n" * 20000)
    write("manifest", "none.ini", "")


json_attacks()
safetensors_attacks()
gguf_attacks()
config_attacks()
npy_attacks()
manifest_attacks()
