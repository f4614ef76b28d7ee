// A sample on its way to another process. What is large goes in pieces (see piece.hpp), one a field or
// tensor, so that each is given back as soon as nobody uses it; the receiver maps it, and copies nothing.
// Shared memory is sealed: who sent it can neither shrink nor change it any more. What came in a file goes on
// in it, so the frames of a long film are written once.
#pragma once
#include "core/workers/channel.hpp"
#include "kinora/sample.hpp"

namespace kinora::core {

// Adds the sample as the head's member "sample". Throws Error, for example for a tensor on a GPU.
void put_sample(Message&, const Sample&);
// The sample of a message. Throws Error(KINORA_DATA) where the message does not hold what it says.
Sample take_sample(const Message&);

}  // namespace kinora::core
