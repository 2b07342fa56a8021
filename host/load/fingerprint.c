/* fingerprint.c - a sum over all that a model's files say: its weights, to the last byte, and its config. */
#include "base/digest.h"
#include "load/model_files.h"

cdz_status cdz_weights_fingerprint(const cdz_weights *weights, uint8_t out[CDZ_DIGEST_BYTES],
                                   cdz_error *err)
{
    cdz_digest_state sum;
    cdz_buf config = {0};
    cdz_digest_begin(&sum);
    cdz_json_write(&config, &weights->config);
    cdz_digest_add(&sum, config.data, config.len);
    const bool good = !config.failed;
    cdz_buf_free(&config);
    if (!good) return cdz_err_memory(err, "a model's fingerprint");
    for (uint32_t i = 0; i < weights->tensors.n_files; i++) {
        const cdz_file *file = &weights->tensors.files[i];
        cdz_digest_add(&sum, &file->size, sizeof file->size);
        cdz_digest_add(&sum, file->data, file->size);
    }
    cdz_digest_end(&sum, out);
    return cdz_weights_check(weights, err);
}
