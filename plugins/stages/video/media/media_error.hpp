#pragma once

#include <stdexcept>

namespace kinora::video {

// The one exception of the media layer. what() names the file (or option), says what is wrong and what to do
// about it: "film.mp4: no video stream (1 audio stream); give a file with video". Thrown by constructors and
// calls of this folder only; the object that threw is unusable afterwards except for destruction, unless its
// comment says otherwise.
class MediaError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace kinora::video
