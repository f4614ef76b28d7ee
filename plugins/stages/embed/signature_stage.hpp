// stage/clip.signature: stores small grey frames of a clip, by which a dedup job tells copies from clips that
// look alike.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "kinora/curation.hpp"
#include "kinora/stage.hpp"

namespace kinora::embed {

// Returns the field `signature`: brightness of 8 x 8 cells, uint8 [T, 8, 8], four frames a second from the
// first one on, at most the first 30 seconds. Frames between two sampled ones are interpolated. times: of
// the frames in seconds, rising, one per frame.
std::string signature_of(const Pictures& pictures, const std::vector<double>& times);

class ClipSignature final : public Stage {
 public:
  struct Options {};
  static void describe(Describe<Options>& d);
  explicit ClipSignature(const Options&) {}
  void process(Sample in, const Emit& emit, const Run& run) override;
};

}  // namespace kinora::embed
