// A sample on its way to another process. What is large goes in shared memory, one piece a field or tensor, so that each
// is given back as soon as nobody uses it; the receiver maps it, and copies nothing. Pieces are sealed: who
// sent them can neither shrink nor change them any more.
#pragma once
#include "core/workers/channel.hpp"
#include "kinora/sample.hpp"

namespace kinora::core {

// Adds the sample as the head's member "sample". Throws Error, for example for a tensor on a GPU.
void put_sample(Message&, const Sample&);
// The sample of a message. Throws Error(KINORA_DATA) where the message does not hold what it says.
Sample take_sample(const Message&);

}  // namespace kinora::core
