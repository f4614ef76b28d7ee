// The secret that ranks of one training share: a prefix of their keys in the store, which keeps out programs
// that do not know it. The store's protocol lists keys to whoever asks, so it is no substitute for a closed
// network.
#pragma once
#include <string>

namespace kinora {

// KINORA_SECRET, else the first line of the file that KINORA_SECRET_FILE names, which only its owner may read;
// empty if neither is set. Throws Error(KINORA_ERROR_INVALID).
std::string shared_secret();

}  // namespace kinora
