/* A library, but no plugin. */
int kinora_tests_no_entry(void);
int kinora_tests_no_entry(void) { return 0; }
