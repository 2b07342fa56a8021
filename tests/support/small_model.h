/* small_model.h - what `cadenza plugin test` is told where loops are judged, not texts: a model of two small layers. */
#ifndef CDZ_TESTS_SUPPORT_SMALL_MODEL_H
#define CDZ_TESTS_SUPPORT_SMALL_MODEL_H

#define SMALL_MODEL                                                                                \
    "--model " CADENZA_TEST_DATA "/golden/llama_gqa --assistant " CADENZA_TEST_DATA                \
    "/golden/llama_gqa"

#endif
