// stage/embed.classic: see classic.hpp for what the vector means.
#pragma once
#include "classic.hpp"
#include "kinora/stage.hpp"

namespace kinora::embed {

class EmbedClassic final : public Stage {
 public:
  struct Options {
    std::string name = "classic";
    double colour = 0.4, gradient = 0.4, motion = 0.2;
  };
  static void describe(Describe<Options>& d);
  explicit EmbedClassic(const Options& o);
  // A sample with shots.json gets field shots.NAME.npy [shots, D], a shot without any frame a row of zeros;
  // any other NAME.npy [D].
  void process(Sample in, const Emit& emit, const Run& run) override;

 private:
  Options options_;
  Shares shares_;
};

}  // namespace kinora::embed
