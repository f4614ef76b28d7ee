// Sends a sample to another process. Large data goes in pieces of memory or of a file, one per field or
// tensor, so that each is freed as soon as it is no longer used; the receiver maps it without copying. Shared
// memory is sealed: its sender can neither shrink nor change it afterwards. Data that came in a file is sent
// on in it, so the frames of a long video are written only once.
#pragma once
#include "core/workers/channel.hpp"
#include "kinora/sample.hpp"

namespace kinora::core {

// Adds the sample as the head's member "sample". Throws Error, for example for a tensor on a GPU.
void put_sample(Message&, const Sample&);
// The sample in a message. Throws Error(KINORA_ERROR_DATA) if the message is inconsistent.
Sample take_sample(const Message&);

}  // namespace kinora::core
