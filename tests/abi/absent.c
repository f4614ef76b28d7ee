/* Linked against by missing_library, then not found when it runs. */
#include <stdlib.h>

int kinora_tests_absent(void);
int kinora_tests_absent(void) { return 3; }

/* What opening a library runs. */
__attribute__((constructor)) static void opened(void) { setenv("KINORA_ABSENT_OPENED", "yes", 1); }
