/* simple.c - a model in your program: open, generate, print.
 *
 *   cc simple.c $(pkg-config --cflags --libs cadenza) -o simple && ./simple MODEL_FOLDER "river (noun):" */
#include <cadenza/cadenza.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    cdz_runtime *runtime = NULL;
    cdz_model *model = NULL;
    cdz_result *result = NULL;
    cdz_error err = {0};
    if (argc == 3 && cdz_open(NULL, &runtime, &err) == CDZ_OK &&
        cdz_model_open(runtime, argv[1], NULL, &model, &err) == CDZ_OK) {
        cdz_request request = {.size = sizeof request, .model = model, .prompt = argv[2]};
        if (cdz_generate(runtime, &request, &result, &err) == CDZ_OK)
            puts(cdz_result_text(result, 0));
    }
    if (!result)
        fprintf(stderr, "simple: %s\n", argc == 3 ? err.text : "usage: simple MODEL PROMPT");
    const int status = err.code != CDZ_OK || !result;
    cdz_result_free(result);
    cdz_model_close(model);
    cdz_close(runtime);
    return status;
}
