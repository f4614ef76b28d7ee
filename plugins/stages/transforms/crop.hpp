// stage/video.crop: one rectangle of all decoded frames of a sample.
#pragma once
#include <string>

#include "kinora/stage.hpp"

namespace kinora::transforms {

class VideoCrop final : public Stage {
 public:
  struct Options {
    int64_t height = 0, width = 0;
    std::string at = "random";
  };
  static void describe(Describe<Options>& d);
  explicit VideoCrop(const Options& o) : options_(o) {}
  void process(Sample in, const Emit& emit, const Run& run) override;

 private:
  Options options_;
};

}  // namespace kinora::transforms
