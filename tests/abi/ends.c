/* Ends its process, never returns or says an unknown value: CMakeLists.txt says in which function and how. */
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "minimal_stage.h"
#ifdef IN_STATIC_CONSTRUCTOR
__attribute__((constructor)) static void opened(void) { IN_STATIC_CONSTRUCTOR; }
#endif
MINIMAL_PLUGIN("ends", sizeof(kinora_plugin), 1, 0, "stage/ends", KINORA_INTERFACE_STAGE, &minimal_stage)
