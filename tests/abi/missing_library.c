/* Needs libkinora_absent.so.3, which is not installed. */
#include "minimal_stage.h"
int kinora_tests_absent(void);
int kinora_tests_use(void);
int kinora_tests_use(void) { return kinora_tests_absent(); }
MINIMAL_PLUGIN("missing_library", sizeof(kinora_plugin), 1, 0, "stage/minimal", KINORA_INTERFACE_STAGE,
               &minimal_stage)
