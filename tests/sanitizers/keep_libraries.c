/* Libraries that were opened at run time stay: for AddressSanitizer builds. What a GPU driver leaves behind
 * when it is unloaded (Mesa's LLVM keeps a table) would count as our leak, and has no name by then that could
 * be suppressed. */
int dlclose(void* handle);

int dlclose(void* handle) {
  (void)handle;
  return 0;
}
