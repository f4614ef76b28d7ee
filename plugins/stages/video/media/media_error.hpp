#pragma once

#include <stdexcept>

namespace kinora::video {

// The exception of the media layer. what() names the file (or option), the problem and the remedy: "a.mp4: no video
// stream (1 audio stream); give a file with video". Only constructors and functions of this folder throw it. An object
// that threw may only be destroyed, unless its comment says otherwise.
class MediaError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace kinora::video
