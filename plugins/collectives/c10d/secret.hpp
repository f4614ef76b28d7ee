// The secret that ranks of one training share, so that no other process of the network can join or change it.
#pragma once
#include <string>

namespace kinora {

// KINORA_SECRET, else the first line of the file that KINORA_SECRET_FILE names, which only its owner may read;
// empty if neither is set. Throws Error(KINORA_ERROR_INVALID).
std::string shared_secret();

}  // namespace kinora
