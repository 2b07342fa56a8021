/* quant_keys.c - quantization_config of config.json: which methods' checkpoints are read, and the one thing that their tensors
 * do not tell, the blocks that share a factor. */
#include "load/config_keys.h"

enum { FP8_BLOCK = 128, MOST_BLOCK = 1 << 20 };

/* weight_block_size: [rows, columns]; null or left out where factors are of whole rows or tensors. */
static cdz_status read_block(const cdz_keys *k, const cdz_json *q, cdz_arch *a)
{
    const cdz_json *size = cdz_json_get(q, "weight_block_size");
    if (!size || size->type == CDZ_JSON_NULL) return CDZ_OK;
    uint32_t *const to[] = {&a->fp8_block.rows, &a->fp8_block.columns};
    bool well = size->type == CDZ_JSON_ARRAY && size->len == 2;
    for (size_t i = 0; well && i < 2; i++) {
        const cdz_json *n = &size->items[i];
        well = n->type == CDZ_JSON_INT && n->integer >= 1 && n->integer <= MOST_BLOCK;
        if (well) *to[i] = (uint32_t)n->integer;
    }
    return well ? CDZ_OK
                : cdz_err(
                      k->err, CDZ_E_INPUT,
                      "%s: weight_block_size of quantization_config must be an array of two sizes "
                      "from 1 to %d",
                      k->path, MOST_BLOCK);
}

static cdz_status read_fp8(const cdz_keys *k, const cdz_json *q, cdz_arch *a)
{
    const cdz_json *format = cdz_json_get(q, "fmt");
    if (cdz_json_is(format, CDZ_JSON_STRING) && !cdz_json_eq(format, "e4m3"))
        return cdz_err(k->err, CDZ_E_UNSUPPORTED,
                       "%s: fmt \"%.40s\" of quantization_config is not supported; e4m3 is",
                       k->path, format->string);
    return read_block(k, q, a);
}

/* Other names of the same: floats of 8 bits with factors of rows or tensors. Of compressed-tensors' and modelopt's many formats
 * one each. */
static bool has_floats(const cdz_json *q)
{
    const cdz_json *method = cdz_json_get(q, "quant_method"), *format = cdz_json_get(q, "format");
    if (cdz_json_eq(method, "compressed-tensors"))
        return cdz_json_eq(format, "float-quantized") || cdz_json_eq(format, "naive-quantized");
    if (cdz_json_eq(method, "modelopt")) return cdz_json_eq(cdz_json_get(q, "quant_algo"), "FP8");
    return cdz_json_eq(method, "fbgemm_fp8");
}

cdz_status cdz_arch_read_quantised(const cdz_keys *k, cdz_arch *a)
{
    const cdz_json *q = cdz_key(k, "quantization_config");
    a->fp8_block = (cdz_fp8_block){FP8_BLOCK, FP8_BLOCK};
    if (!q) return CDZ_OK;
    const cdz_json *method = cdz_json_get(q, "quant_method");
    if (cdz_json_eq(method, "bitsandbytes")) return CDZ_OK;                    /* bnb.c */
    if (cdz_json_eq(method, "mxfp4")) return CDZ_OK;                           /* mxfp4.c */
    if (cdz_json_eq(method, "fp8") || has_floats(q)) return read_fp8(k, q, a); /* fp8.c */
    return cdz_err(
        k->err, CDZ_E_UNSUPPORTED,
        "%s: quantization_config (%.40s) is not supported; weights must be f32, f16, bf16, "
        "bitsandbytes', mxfp4, fp8, fbgemm_fp8, modelopt's FP8 or compressed-tensors' float-quantized",
        k->path, cdz_json_is(method, CDZ_JSON_STRING) ? method->string : "of no method");
}
