// stage/video.flip: mirrors the decoded frames of some samples.
#pragma once
#include "kinora/stage.hpp"

namespace kinora::transforms {

class VideoFlip final : public Stage {
 public:
  struct Options {
    double probability = 0.5;
  };
  static void describe(Describe<Options>& d);
  explicit VideoFlip(const Options& o) : options_(o) {}
  void process(Sample in, const Emit& emit, const Run& run) override;

 private:
  Options options_;
};

}  // namespace kinora::transforms
