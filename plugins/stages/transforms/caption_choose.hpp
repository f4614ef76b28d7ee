// stage/caption.choose: one of several captions becomes the sample's caption, drawn anew for each slot.
#pragma once
#include <string>
#include <vector>

#include "kinora/stage.hpp"

namespace kinora::transforms {

class CaptionChoose final : public Stage {
 public:
  struct Options {
    std::vector<std::string> of{"txt"};
    std::vector<double> weights;
    double dropout = 0;
  };
  static void describe(Describe<Options>& d);
  // Throws Error(KINORA_ERROR_INVALID) for weights that do not belong to `of`.
  explicit CaptionChoose(const Options& o);
  void process(Sample in, const Emit& emit, const Run& run) override;

 private:
  Options options_;
};

}  // namespace kinora::transforms
