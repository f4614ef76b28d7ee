/* Uses an undefined function, like a plugin that was built for another libtorch. */
#include "minimal_stage.h"
int kinora_tests_defined_nowhere(void);
int kinora_tests_use(void);
int kinora_tests_use(void) { return kinora_tests_defined_nowhere(); }
MINIMAL_PLUGIN("undefined_symbol", sizeof(kinora_plugin), 1, 0, "stage/minimal", KINORA_INTERFACE_STAGE,
               &minimal_stage)
