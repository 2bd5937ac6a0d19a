/* Libraries that were opened at run time stay: for AddressSanitizer builds. What a GPU driver leaves behind
 * when it is unloaded (Mesa's LLVM keeps a table) would count as our leak, and has no name by then that could
 * be suppressed. */
int dlclose(void* handle);

int dlclose(void* handle) {
  (void)handle;
  return 0;
}

/* libedit keeps copies of the name and the description of a command that a program adds (el_set, EL_ADDFN),
 * and el_end leaves them: two small ones in all. Our own code has no wide strings that it duplicates. */
const char* __lsan_default_suppressions(void);
const char* __lsan_default_suppressions(void) {
  return "leak:wcsdup\n";
}
