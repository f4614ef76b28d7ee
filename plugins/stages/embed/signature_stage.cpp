#include "signature_stage.hpp"

#include <algorithm>
#include <cmath>

#include "kinora/plugin.hpp"
#include "shrink.hpp"

namespace kinora::embed {
namespace {

constexpr int64_t kSignatureSide = 8;
constexpr double kSignatureRate = 4;
constexpr size_t kSignatureFrames = 120;

}  // namespace

std::string signature_of(const Pictures& pictures, const std::vector<double>& times) {
  std::vector<std::vector<double>> frames;
  for (int64_t i = 0; i < pictures.count; ++i)
    frames.push_back(brightness(shrink(pictures.frame(i), pictures.height, pictures.width, kSignatureSide)));
  constexpr double kRounding = 1e-6;  // rounding error of times in microseconds
  std::string out;
  for (size_t n = 0, at = 0; n < kSignatureFrames; ++n) {
    const double time = times.front() + static_cast<double>(n) / kSignatureRate;
    if (time > times.back() + kRounding) break;
    while (at + 2 < frames.size() && times[at + 1] <= time) ++at;
    const size_t next = std::min(at + 1, frames.size() - 1);
    const double gap = times[next] - times[at],
                 share = gap > 0 ? std::clamp((time - times[at]) / gap, 0.0, 1.0) : 0;
    for (size_t cell = 0; cell < frames[at].size(); ++cell)
      out += static_cast<char>(
          static_cast<uint8_t>(std::lround(std::lerp(frames[at][cell], frames[next][cell], share))));
  }
  return out;
}

void ClipSignature::describe(Describe<Options>& d) {
  d.name("clip.signature")
      .help(
          "Stores small grey frames, by which a dedup job tells copies from clips that look alike: field "
          "signature, uint8 [T, 8, 8], four frames a second of the first 30 seconds");
  d.input("frames", "[T, H, W, 3]", "uint8",
          "sampled RGB frames, upright, best four a second; fact frames_at is required too");
}

void ClipSignature::process(Sample in, const Emit& emit, const Run&) {
  if (is_picture(in)) return emit(std::move(in));
  const Pictures pictures = pictures_of(in);
  const auto times = detail::numbers_in(in, json_field(in, "json"), "frames_at");
  if (static_cast<int64_t>(times.size()) != pictures.count)
    throw detail::wrong_sample(in, "it has " + std::to_string(pictures.count) + " frames and " +
                                       std::to_string(times.size()) + " times in frames_at");
  in.set("signature", signature_of(pictures, times));
  emit(std::move(in));
}

}  // namespace kinora::embed

using kinora::embed::ClipSignature;
KINORA_COMPONENT(ClipSignature)
