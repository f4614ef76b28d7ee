// A shot of a video that is made chunk by chunk: from a list, or begun by a viewer while the video is made.
#pragma once
#include <cstdint>
#include <string>

namespace kinora::core {

// How the keys and values of earlier chunks change, which the earlier prompt made.
enum class PromptSwitch {
  none,     // they stay
  recache,  // the chunks that the next one sees are read again with the new prompt (LongLive 1)
  blend,    // they stay, and the prompt's embedding goes over to the new one in `blend` chunks
  flush     // the sink's stay, and the last chunk is read again after it, without the others (Infinity-RoPE)
};

struct Shot {
  std::string prompt;
  int64_t chunks = 0;  // its length; 0: by `seconds`
  double seconds = 0;
  bool cuts = true;  // time jumps, and its first chunk is kept
  PromptSwitch change = PromptSwitch::none;
  int64_t blend = 4;  // chunks
};

}  // namespace kinora::core
