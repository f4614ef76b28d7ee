/* Linked by missing_library, but not found at run time. */
#include <stdlib.h>

int kinora_tests_absent(void);
int kinora_tests_absent(void) { return 3; }

/* Runs when the library is opened. */
__attribute__((constructor)) static void opened(void) { setenv("KINORA_ABSENT_OPENED", "yes", 1); }
