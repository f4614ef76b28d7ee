/* Linked against by missing_library, then not found when it runs. */
int kinora_tests_absent(void);
int kinora_tests_absent(void) { return 3; }
