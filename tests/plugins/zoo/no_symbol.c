/* A shared object that is no plugin. */
int zoo_answer(void);
__attribute__((visibility("default"))) int zoo_answer(void)
{
    return 42;
}
