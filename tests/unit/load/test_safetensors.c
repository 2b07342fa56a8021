/* test_safetensors.c - what a .safetensors file or an index of shards may lie about, each lie a
 * file. */
#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/sanitized.h"
#include "load/safetensors.h"
#include "support/folder.h"

#define COUNT(table) (sizeof(table) / sizeof *(table))
#define TEXT(s)      s, sizeof(s) - 1

/* --- files ----------------------------------------------------------------------------------- */

static int make_folder(void **state)
{
    (void)state;
    return folder_make("test") ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    folder_remove();
    return 0;
}

/* N, the header, then n_data bytes 0, 1, 2, ... */
static void write_tensors(const char *name, uint64_t n, const char *header, size_t header_len,
                          size_t n_data)
{
    cdz_buf buf = {0};
    for (int i = 0; i < 8; i++) cdz_buf_putc(&buf, (char)(n >> (8 * i) & 0xFF));
    cdz_buf_add(&buf, header, header_len);
    for (size_t i = 0; i < n_data; i++) cdz_buf_putc(&buf, (char)(i & 0x7F));
    assert_false(buf.failed);
    folder_write(name, buf.data, buf.len);
    cdz_buf_free(&buf);
}

static cdz_status open_text(const char *header, size_t len, size_t n_data, cdz_tensors *out,
                            cdz_error *err)
{
    write_tensors("t.safetensors", len, header, len, n_data);
    return cdz_tensors_open(folder_path("t.safetensors"), out, err);
}

static void assert_empty(const cdz_tensors *set)
{
    const cdz_tensors none = {0};
    assert_memory_equal(set, &none, sizeof none);
}

/* --- good files ------------------------------------------------------------------------------ */

static void reads_tensors(void **state)
{
    (void)state;
    cdz_tensors set;
    cdz_error err;
    static const char header[] =
        "{\"__metadata__\":{\"format\":\"pt\"},"
        "\"b.w\":{\"dtype\":\"F16\",\"shape\":[2,3],\"data_offsets\":[4,16]},"
        "\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4],\"note\":\"kept by nobody\"},"
        "\"none\":{\"dtype\":\"BF16\",\"shape\":[0,5],\"data_offsets\":[16,16]},"
        "\"nibbles\":{\"dtype\":\"F4\",\"shape\":[4],\"data_offsets\":[16,18]}}   ";
    if (open_text(TEXT(header), 18, &set, &err) != CDZ_OK) fail_msg("%s", err.text);
    assert_int_equal(set.n_items, 4);
    const cdz_tensor *t = cdz_tensors_find(&set, "b.w");
    assert_non_null(t);
    assert_string_equal(t->dtype, "F16");
    assert_int_equal(t->n_dims, 2);
    assert_int_equal(t->shape[1], 3);
    assert_int_equal(t->n_bytes, 12);
    assert_int_equal(*(const char *)t->data, 4);
    char shape[16];
    assert_string_equal(cdz_tensor_shape_text(t, shape, sizeof shape), "[2, 3]");
    assert_string_equal(cdz_tensor_shape_text(t, shape, 4), "[2,");
    assert_int_equal(cdz_tensors_find(&set, "a")->n_dims, 0);
    assert_int_equal(cdz_tensors_find(&set, "none")->n_bytes, 0);
    assert_null(cdz_tensors_find(&set, "b"));
    cdz_tensors_close(&set);
    assert_empty(&set);
    cdz_tensors_close(&set);
    cdz_tensors_close(NULL);
}

static void no_tensors_at_all(void **state)
{
    (void)state;
    cdz_tensors set;
    assert_int_equal(open_text(TEXT("{}"), 0, &set, NULL), CDZ_OK);
    assert_int_equal(set.n_items, 0);
    assert_null(cdz_tensors_find(&set, "a"));
    cdz_tensors_close(&set);
}

/* --- headers that lie ------------------------------------------------------------------------ */

#define A(dtype, shape, begin, end)                                                                \
    "\"a\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" begin "," end "]}"
#define B(begin, end) "\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[" begin "," end "]}"
#define TENS          "1,1,1,1,1,1,1,1,1,1,"

static const struct {
    const char *name, *header;
    size_t len, n_data;
    const char *sentence;
} lies[] = {
    {"not beginning with {", TEXT("[{}]"), 0, "begins with byte 0x5B, expected '{'"},
    {"leading space", TEXT(" {}"), 0, "begins with byte 0x20, expected '{'"},
    {"trailing NUL", TEXT("{}\0\0"), 0, ":1:3: expected the end of the text, found byte 0x00"},
    {"invalid UTF-8 in a name", TEXT("{\"\xFF\":{}}"), 0, "invalid UTF-8"},
    {"broken JSON", TEXT("{\"a\":"), 0, "expected a value"},
    {"a tensor twice", TEXT("{" A("U8", "[4]", "0", "4") "," A("U8", "[4]", "0", "4") "}"), 4,
     "the name \"a\" is already in this object"},
    {"a name going on after NUL", TEXT("{\"a\\u0000b\":{}}"), 0, "goes on after a NUL byte"},
    {"a tensor that is a number", TEXT("{\"a\":7}"), 0,
     "tensor a is an integer, expected an object"},
    {"no dtype", TEXT("{\"a\":{\"shape\":[],\"data_offsets\":[0,0]}}"), 0, "dtype is nothing"},
    {"dtype a number", TEXT("{\"a\":{\"dtype\":32}}"), 0, "dtype is an integer, expected a string"},
    {"unknown dtype", TEXT("{" A("F31", "[1]", "0", "4") "}"), 4,
     "tensor a: unknown dtype \"F31\", expected one such as F32"},
    {"dtype in small letters", TEXT("{" A("bf16", "[1]", "0", "2") "}"), 2,
     "unknown dtype \"bf16\""},
    {"no shape", TEXT("{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}"), 4, "shape is nothing"},
    {"shape a number", TEXT("{" A("F32", "1", "0", "4") "}"), 4, "shape is an integer"},
    {"negative size", TEXT("{" A("F32", "[-1]", "0", "4") "}"), 4, "size 0 of its shape is not"},
    {"a size of 1.0", TEXT("{" A("F32", "[2,1.0]", "0", "8") "}"), 8, "size 1 of its shape is not"},
    {"a size of 1e300", TEXT("{" A("F32", "[1e300]", "0", "4") "}"), 4,
     "size 0 of its shape is not"},
    {"a size of 2^64", TEXT("{" A("U8", "[18446744073709551616]", "0", "0") "}"), 0,
     "size 0 of its shape is not"},
    {"shape product 2^64", TEXT("{" A("U8", "[4294967296,4294967296]", "0", "0") "}"), 0,
     "product of its shape is too large"},
    {"shape product 2^64 in bits", TEXT("{" A("F64", "[288230376151711744]", "0", "0") "}"), 0,
     "product of its shape is too large"},
    {"too large times 0", TEXT("{" A("U8", "[4294967296,4294967296,0]", "0", "0") "}"), 0,
     "product of its shape is too large"},
    {"100 dimensions",
     TEXT("{" A("U8", "[" TENS TENS TENS TENS TENS TENS TENS TENS TENS TENS "1]", "0", "1") "}"), 1,
     "has 101 dimensions, at most 64"},
    {"a size that is too small", TEXT("{" A("F32", "[3]", "0", "16") "}"), 16,
     "tensor a has 16 bytes, [3] of F32 are 12"},
    {"a size of 0 with data", TEXT("{" A("F32", "[0]", "0", "4") "}"), 4, "[0] of F32 are 0"},
    {"three nibbles", TEXT("{" A("F4", "[3]", "0", "2") "}"), 2, "do not fill whole bytes"},
    {"no offsets", TEXT("{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}"), 4, "data_offsets must be two"},
    {"three offsets", TEXT("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1,2]}}"), 2,
     "data_offsets must be two"},
    {"negative offset", TEXT("{" A("F32", "[1]", "-4", "0") "}"), 4, "data_offsets must be two"},
    {"fractional offset", TEXT("{" A("F32", "[1]", "0", "4.0") "}"), 4, "data_offsets must be two"},
    {"begin after end", TEXT("{" A("F32", "[1]", "8", "4") "}"), 8,
     "tensor a begins at byte 8 after its end, 4"},
    {"past the end", TEXT("{" A("F32", "[2]", "0", "8") "}"), 7,
     "tensor a ends at byte 8 of the data, the file has only 7"},
    {"far past the end", TEXT("{" A("U8", "[9223372036854775807]", "0", "9223372036854775807") "}"),
     0, "product of its shape is too large"},
    {"gap before the first", TEXT("{" A("F32", "[1]", "4", "8") "}"), 8,
     "tensor a begins at byte 4 of the data, expected 0: there is a gap"},
    {"gap between two", TEXT("{" A("F32", "[1]", "0", "4") "," B("6", "10") "}"), 10,
     "tensor b begins at byte 6 of the data, expected 4: there is a gap"},
    {"overlap", TEXT("{" A("F32", "[1]", "0", "4") "," B("3", "7") "}"), 7,
     "tensor b begins at byte 3 of the data, expected 4: it overlaps another"},
    {"two tensors, one place", TEXT("{" A("U8", "[4]", "0", "4") "," B("0", "4") "}"), 4,
     "expected 4: it overlaps another"},
    {"bytes after the last", TEXT("{" A("F32", "[1]", "0", "4") "}"), 5,
     "the tensors end at byte 4 of the data, the file goes on to 5"},
    {"data without tensors", TEXT("{}"), 1, "the tensors end at byte 0"},
    {"metadata a list", TEXT("{\"__metadata__\":[]}"), 0, "__metadata__ is an array"},
    {"nested metadata", TEXT("{\"__metadata__\":{\"a\":{\"b\":\"c\"}}}"), 0,
     "__metadata__ \"a\" is an object, expected a string"},
    {"deep metadata", TEXT("{\"__metadata__\":{\"a\":[[[[[[1]]]]]]}}"), 0, "nested too deeply"},
};

static void lies_are_sentences(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(lies); i++) {
        cdz_tensors set;
        cdz_error err = {0};
        cdz_status st = open_text(lies[i].header, lies[i].len, lies[i].n_data, &set, &err);
        if (st != CDZ_E_INPUT) fail_msg("%s: status %d %s", lies[i].name, (int)st, err.text);
        if (!strstr(err.text, lies[i].sentence)) fail_msg("%s: %s", lies[i].name, err.text);
        if (!strstr(err.text, "t.safetensors")) fail_msg("%s: no path: %s", lies[i].name, err.text);
        assert_empty(&set);
    }
}

static const struct {
    const char *name;
    uint64_t n;
    size_t n_data;
    const char *sentence;
} lengths[] = {
    {"N is 0", 0, 8, "the header has 0 bytes, expected at least 2"},
    {"N is 1", 1, 8, "the header has 1 bytes, expected at least 2"},
    {"N is 7, the data no JSON", 7, 8, "the header begins with byte 0x00, expected '{'"},
    {"N is one past the file", 9, 8, "the header claims 9 bytes, the file has 8 after the length"},
    {"N is past the limit", 100000001, 8, "the header claims 100000001 bytes, at most 100000000"},
    {"N is 2^63", (uint64_t)1 << 63, 8, "the header claims 9223372036854775808 bytes"},
    {"N is 2^64 - 1", UINT64_MAX, 8, "the header claims 18446744073709551615 bytes"},
};

static void header_lengths(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(lengths); i++) {
        cdz_tensors set;
        cdz_error err = {0};
        write_tensors("t.safetensors", lengths[i].n, "", 0, lengths[i].n_data);
        assert_int_equal(cdz_tensors_open(folder_path("t.safetensors"), &set, &err), CDZ_E_INPUT);
        if (!strstr(err.text, lengths[i].sentence)) fail_msg("%s: %s", lengths[i].name, err.text);
    }
    for (size_t len = 0; len < 8; len++) {
        cdz_tensors set;
        cdz_error err = {0};
        folder_write("t.safetensors", "\2\0\0\0\0\0\0\0", len);
        assert_int_equal(cdz_tensors_open(folder_path("t.safetensors"), &set, &err), CDZ_E_INPUT);
        assert_non_null(strstr(err.text, "are too few for a safetensors file"));
    }
}

/* Reads a golden model's file whole. */
static char *golden(const char *name, size_t *len)
{
    char *text = NULL;
    char path[512];
    cdz_error err;
    snprintf(path, sizeof path, "%s/golden/%s", CADENZA_TEST_DATA, name);
    if (cdz_file_read(path, 1 << 20, &text, len, &err) != CDZ_OK) fail_msg("%s", err.text);
    return text;
}

static void a_real_file_truncated(void **state)
{
    (void)state;
    size_t len;
    char *text = golden("llama_bf16/model.safetensors", &len);
    for (size_t cut = 0; cut < len; cut += cut < 4096 ? 61 : 4093) {
        cdz_tensors set;
        cdz_error err = {0};
        folder_write("t.safetensors", text, cut);
        assert_int_equal(cdz_tensors_open(folder_path("t.safetensors"), &set, &err), CDZ_E_INPUT);
        assert_non_null(strstr(err.text, "t.safetensors"));
    }
    free(text);
}

/* Flipped bits in the header: whatever is accepted has every tensor inside the file. */
static void a_real_file_with_flipped_bits(void **state)
{
    (void)state;
    size_t len;
    char *text = golden("llama_bf16/model.safetensors", &len);
    for (size_t i = 0; i < 2600; i++) {
        size_t at = i * 7 % 2600;
        cdz_tensors set;
        text[at] = (char)(text[at] ^ (1 << (i % 8)));
        folder_write("t.safetensors", text, len);
        if (cdz_tensors_open(folder_path("t.safetensors"), &set, NULL) == CDZ_OK) {
            const char *start = set.files[0].data;
            for (size_t k = 0; k < set.n_items; k++) {
                const char *data = set.items[k].data;
                assert_true(data >= start && data + set.items[k].n_bytes <= start + len);
            }
            cdz_tensors_close(&set);
        }
        text[at] = (char)(text[at] ^ (1 << (i % 8)));
    }
    free(text);
}

/* --- what is no regular file ----------------------------------------------------------------- */

static void special_files(void **state)
{
    (void)state;
    static const struct {
        const char *name, *sentence;
        cdz_status status;
    } cases[] = {
        {"absent", "absent: no such file", CDZ_E_NOT_FOUND},
        {"fifo", "fifo: is a named pipe, expected a regular file", CDZ_E_INPUT},
        {"sub", "sub: is a folder, expected a regular file", CDZ_E_INPUT},
        {"link-to-fifo", "is a named pipe", CDZ_E_INPUT},
        {"link-to-nothing", "no such file", CDZ_E_NOT_FOUND},
        {"link-to-device", "is a device", CDZ_E_INPUT},
        {"link-to-itself", "cannot be opened", CDZ_E_IO},
        {"empty", "0 bytes are too few", CDZ_E_INPUT},
        {"empty/inside", "a part of the path is no folder", CDZ_E_NOT_FOUND},
    };
    assert_int_equal(mkfifo(folder_path("fifo"), 0600), 0);
    assert_int_equal(mkdir(folder_path("sub"), 0700), 0);
    assert_int_equal(symlink("fifo", folder_path("link-to-fifo")), 0);
    assert_int_equal(symlink("absent", folder_path("link-to-nothing")), 0);
    assert_int_equal(symlink("/dev/zero", folder_path("link-to-device")), 0);
    assert_int_equal(symlink("link-to-itself", folder_path("link-to-itself")), 0);
    folder_write("empty", "", 0);
    for (size_t i = 0; i < COUNT(cases); i++) {
        cdz_tensors set;
        cdz_error err = {0};
        cdz_status st = cdz_tensors_open(folder_path(cases[i].name), &set, &err);
        if (st != cases[i].status || !strstr(err.text, cases[i].sentence))
            fail_msg("%s: %d %s", cases[i].name, (int)st, err.text);
    }
}

static void a_link_to_a_file_is_followed(void **state)
{
    (void)state;
    cdz_tensors set;
    write_tensors("blob", 2, "{}", 2, 0);
    assert_int_equal(symlink("blob", folder_path("link.safetensors")), 0);
    assert_int_equal(cdz_tensors_open(folder_path("link.safetensors"), &set, NULL), CDZ_OK);
    cdz_tensors_close(&set);
}

static void a_file_cut_while_mapped(void **state)
{
    (void)state;
    cdz_tensors set;
    cdz_error err = {0};
    char byte;
    assert_int_equal(open_text(TEXT("{" A("U8", "[4]", "0", "4") "}"), 4, &set, NULL), CDZ_OK);
    assert_int_equal(cdz_file_check(&set.files[0], &err), CDZ_OK);
    assert_int_equal(cdz_file_read_at(&set.files[0], set.files[0].size - 1, &byte, 1, &err), CDZ_OK);
    assert_int_equal(byte, 3);
    assert_int_equal(cdz_file_read_at(&set.files[0], set.files[0].size, &byte, 1, &err),
                     CDZ_E_INPUT);
    assert_int_equal(truncate(folder_path("t.safetensors"), 20), 0);
    assert_int_equal(cdz_file_check(&set.files[0], &err), CDZ_E_IO);
    assert_non_null(strstr(err.text, "was cut from"));
    assert_int_equal(cdz_file_read_at(&set.files[0], set.files[0].size - 1, &byte, 1, &err),
                     CDZ_E_IO);
    assert_non_null(strstr(err.text, "was cut while it was in use"));
    cdz_tensors_close(&set);
}

/* --- memory ---------------------------------------------------------------------------------- */

/* Opens the file in a child that may take 4 times its size plus 64 MiB and nothing more. Under a
 * sanitizer, whose own memory is counted, without that limit. Returns the child's status code. */
static int open_with_little_memory(const char *name, const char *sentence)
{
    struct stat info;
    assert_int_equal(stat(folder_path(name), &info), 0);
    pid_t child = fork();
    if (child == 0) {
        rlim_t bytes = (rlim_t)info.st_size * 4 + ((rlim_t)64 << 20);
        const struct rlimit limit = {bytes, bytes};
        cdz_tensors set;
        cdz_error err = {0};
        if (!CDZ_SANITIZED) setrlimit(RLIMIT_DATA, &limit);
        cdz_status st = cdz_tensors_open(folder_path(name), &set, &err);
        if (!strstr(err.text, sentence)) fprintf(stderr, "%s: %s\n", name, err.text);
        int code = strstr(err.text, sentence) ? (int)st : 100;
        cdz_tensors_close(&set);
        _exit(code);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void write_many(const char *name, size_t n, const char *entry, size_t n_data)
{
    cdz_buf buf = {0};
    cdz_buf_putc(&buf, '{');
    for (size_t i = 0; i < n; i++) {
        cdz_buf_printf(&buf, "%s\"%zu\":", i ? "," : "", i);
        cdz_buf_puts(&buf, entry);
    }
    cdz_buf_putc(&buf, '}');
    assert_false(buf.failed);
    write_tensors(name, buf.len, buf.data, buf.len, n_data);
    cdz_buf_free(&buf);
}

static void many_entries_sharing_one_range(void **state)
{
    (void)state;
    static const char entry[] = "{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}";
    write_many("small.safetensors", 100000, entry, 4);
    assert_int_equal(open_with_little_memory("small.safetensors", "it overlaps another"),
                     CDZ_E_INPUT);
    write_many("large.safetensors", 800000, entry, 4);
    assert_int_equal(open_with_little_memory("large.safetensors", "needs more than"), CDZ_E_LIMIT);
}

static void many_overlapping_large_tensors(void **state)
{
    (void)state;
    write_many("t.safetensors", 100000,
               "{\"dtype\":\"F32\",\"shape\":[40000],\"data_offsets\":[0,160000]}", 160000);
    assert_int_equal(open_with_little_memory("t.safetensors", "it overlaps another"), CDZ_E_INPUT);
}

static void many_small_values(void **state)
{
    (void)state;
    write_many("t.safetensors", 4000000, "0", 0);
    assert_int_equal(open_with_little_memory("t.safetensors", "needs more than"), CDZ_E_LIMIT);
}

static void a_metadata_string_of_50_mb(void **state)
{
    (void)state;
    cdz_buf buf = {0};
    cdz_buf_puts(&buf, "{\"__metadata__\":{\"x\":\"");
    for (int i = 0; i < 5000000; i++) cdz_buf_puts(&buf, "abcdefghij");
    cdz_buf_puts(&buf, "\"}}");
    write_tensors("t.safetensors", buf.len, buf.data, buf.len, 0);
    cdz_buf_free(&buf);
    assert_int_equal(open_with_little_memory("t.safetensors", ""), CDZ_OK);
}

/* --- shards ---------------------------------------------------------------------------------- */

#define ONE(name) "{\"" name "\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}"

static void write_two_shards(void)
{
    write_tensors("1.safetensors", sizeof(ONE("a")) - 1, TEXT(ONE("a")), 4);
    write_tensors("2.safetensors", sizeof(ONE("b")) - 1, TEXT(ONE("b")), 4);
}

static cdz_status open_index(const char *text, size_t len, cdz_tensors *set, cdz_error *err)
{
    folder_write("index.json", text, len);
    return cdz_tensors_open_shards(folder_path("index.json"), set, err);
}

static void two_shards(void **state)
{
    (void)state;
    cdz_tensors set;
    cdz_error err = {0};
    write_two_shards();
    if (open_index(TEXT("{\"metadata\":{\"total_size\":8},\"weight_map\":{\"b\":\"2.safetensors\","
                        "\"a\":\"1.safetensors\"}}"),
                   &set, &err) != CDZ_OK)
        fail_msg("%s", err.text);
    assert_int_equal(set.n_files, 2);
    assert_int_equal(set.n_items, 2);
    assert_int_equal(cdz_tensors_find(&set, "b")->file, 1);
    cdz_tensors_close(&set);
}

static const struct {
    const char *name, *text;
    size_t len;
    const char *sentence;
    cdz_status status;
} indexes[] = {
    {"no weight_map", TEXT("{}"), "weight_map is nothing, expected an object", CDZ_E_INPUT},
    {"not an object", TEXT("[]"), "weight_map is nothing", CDZ_E_INPUT},
    {"weight_map a list", TEXT("{\"weight_map\":[]}"), "weight_map is an array", CDZ_E_INPUT},
    {"empty weight_map", TEXT("{\"weight_map\":{}}"), "weight_map is empty", CDZ_E_INPUT},
    {"shard a number", TEXT("{\"weight_map\":{\n\"a\":1}}"),
     "index.json:2: tensor a: the shard is an integer, expected a file name", CDZ_E_INPUT},
    {"out of the folder", TEXT("{\"weight_map\":{\"a\":\"../x.safetensors\"}}"),
     "shard \"../x.safetensors\" must be a plain name", CDZ_E_INPUT},
    {"absolute path", TEXT("{\"weight_map\":{\"a\":\"/etc/x.safetensors\"}}"),
     "must be a plain name", CDZ_E_INPUT},
    {"a folder below", TEXT("{\"weight_map\":{\"a\":\"sub/1.safetensors\"}}"),
     "must be a plain name", CDZ_E_INPUT},
    {"backslash", TEXT("{\"weight_map\":{\"a\":\"..\\\\1.safetensors\"}}"), "must be a plain name",
     CDZ_E_INPUT},
    {"hidden file", TEXT("{\"weight_map\":{\"a\":\".safetensors\"}}"), "must be a plain name",
     CDZ_E_INPUT},
    {"empty name", TEXT("{\"weight_map\":{\"a\":\"\"}}"), "must be a plain name", CDZ_E_INPUT},
    {"name cut by NUL", TEXT("{\"weight_map\":{\"a\":\"1.safetensors\\u0000.safetensors\"}}"),
     "must be a plain name", CDZ_E_INPUT},
    {"another kind of file", TEXT("{\"weight_map\":{\"a\":\"config.json\"}}"),
     "must be a plain name", CDZ_E_INPUT},
    {"the index itself", TEXT("{\"weight_map\":{\"a\":\"index.json\"}}"), "must be a plain name",
     CDZ_E_INPUT},
    {"missing shard", TEXT("{\"weight_map\":{\"a\":\"1.safetensors\",\"c\":\"9.safetensors\"}}"),
     "index.json names a shard that is missing: ", CDZ_E_NOT_FOUND},
    {"tensor in no shard", TEXT("{\"weight_map\":{\"c\":\"1.safetensors\"}}"),
     "index.json:1: tensor c is not in 1.safetensors", CDZ_E_INPUT},
    {"tensor in another shard",
     TEXT("{\"weight_map\":{\"b\":\"1.safetensors\",\"a\":\"2.safetensors\"}}"),
     "index.json:1: tensor b is in 2.safetensors, not in 1.safetensors", CDZ_E_INPUT},
    {"tensor in two shards",
     TEXT("{\"weight_map\":{\"a\":\"1.safetensors\",\"b\":\"2.safetensors\","
          "\"c\":\"3.safetensors\"}}"),
     "tensor a is in ", CDZ_E_INPUT},
    {"tensor mapped twice",
     TEXT("{\"weight_map\":{\"a\":\"1.safetensors\",\"a\":\"2.safetensors\"}}"),
     "the name \"a\" is already in this object", CDZ_E_INPUT},
    {"shard that is an index", TEXT("{\"weight_map\":{\"a\":\"link.index.safetensors\"}}"),
     "the header claims", CDZ_E_INPUT},
    {"shard that is a pipe", TEXT("{\"weight_map\":{\"a\":\"pipe.safetensors\"}}"),
     "is a named pipe", CDZ_E_INPUT},
};

static void lying_indexes(void **state)
{
    (void)state;
    write_two_shards();
    write_tensors("3.safetensors", sizeof(ONE("a")) - 1, TEXT(ONE("a")), 4);
    assert_int_equal(mkfifo(folder_path("pipe.safetensors"), 0600), 0);
    assert_int_equal(symlink("index.json", folder_path("link.index.safetensors")), 0);
    for (size_t i = 0; i < COUNT(indexes); i++) {
        cdz_tensors set;
        cdz_error err = {0};
        cdz_status st = open_index(indexes[i].text, indexes[i].len, &set, &err);
        if (st != indexes[i].status || !strstr(err.text, indexes[i].sentence))
            fail_msg("%s: %d %s", indexes[i].name, (int)st, err.text);
        assert_empty(&set);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_tensors),
        cmocka_unit_test(no_tensors_at_all),
        cmocka_unit_test(lies_are_sentences),
        cmocka_unit_test(header_lengths),
        cmocka_unit_test(a_real_file_truncated),
        cmocka_unit_test(a_real_file_with_flipped_bits),
        cmocka_unit_test(special_files),
        cmocka_unit_test(a_link_to_a_file_is_followed),
        cmocka_unit_test(a_file_cut_while_mapped),
        cmocka_unit_test(many_entries_sharing_one_range),
        cmocka_unit_test(many_overlapping_large_tensors),
        cmocka_unit_test(many_small_values),
        cmocka_unit_test(a_metadata_string_of_50_mb),
        cmocka_unit_test(two_shards),
        cmocka_unit_test(lying_indexes),
    };
    return cmocka_run_group_tests_name("safetensors", tests, make_folder, remove_folder);
}
