/* Something else of the right name. */
extern const int cdz_plugin;
__attribute__((visibility("default"))) const int cdz_plugin = 42;
