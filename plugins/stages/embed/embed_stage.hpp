// stage/embed.classic: embeds clips with the descriptor of classic.hpp.
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
  // A sample with shots.json gets field shots.NAME.npy [shots, D], where a shot without frames has a row of
  // zeros; any other sample gets NAME.npy [D].
  void process(Sample in, const Emit& emit, const Run& run) override;

 private:
  Options options_;
  Shares shares_;
};

}  // namespace kinora::embed
