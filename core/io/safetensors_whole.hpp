#pragma once
#include "core/io/safetensors.hpp"

namespace kinora::core {

// KINORA_DATA if one of its files shrank since it was opened: reading the lost part would kill the process with SIGBUS, as
// would a file that shrinks during a read. So new weights must be written next to the old ones and renamed, as
// write_safetensors() does.
Status check_whole(const Safetensors& file);

}  // namespace kinora::core
