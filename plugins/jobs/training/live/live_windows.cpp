#include "plugins/jobs/training/live/live_windows.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "core/base/facts.hpp"
#include "core/torch/tensors/noise.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "plugins/jobs/training/media/clips.hpp"

namespace kinora::core {
namespace {

json read_options(const EncodeOptions& o) {
  return {{"height", o.height},
          {"width", o.width},
          {"stride", o.every},
          {"frames", o.frames},
          {"memory", std::max(3 * o.frames * o.height * o.width, int64_t{1} << 20)}};
}

bool is_of_the_sample(const Error& e) {
  return e.code() == KINORA_ERROR_DATA || e.code() == KINORA_ERROR_UNSUPPORTED ||
         e.code() == KINORA_ERROR_NOT_FOUND;
}

}  // namespace

LiveWindows::LiveWindows(const JobView& encode, at::Device device)
    : options_(encode.options<EncodeOptions>()),
      seed_(static_cast<uint64_t>(encode.run().seed)),
      order_(*encode.spec().data, seed_),
      ahead_(order_, encode.spec().data->reading),
      failed_(encode.spec().name, encode.spec().data->reading),
      read_(encode.runtime(), "video.read", read_options(options_), {.finishes = true}),
      probe_(encode.runtime(), "video.probe", json{{"count", true}}, {.finishes = true}),
      signals_(options_.signals, options_.every),
      encoder_(encode, options_, device),
      text_(encode, encode.spec(), device),
      fps_(24.0 / static_cast<double>(options_.every)) {}

LiveWindows::Window LiveWindows::at(uint64_t slot, const Accept& accept) {
  const at::NoGradGuard off;
  std::optional<Window> out;
  const auto use = [&](const DataOrder::Draw& draw, std::string& why) {
    try {
      out = window(draw, slot, accept);
    } catch (const Error& e) {
      if (!is_of_the_sample(e)) throw;
      why = e.what();
    }
    return out.has_value();
  };
  order_.find_usable(slot, use, &failed_);
  return *std::move(out);
}

std::optional<LiveWindows::Window> LiveWindows::window(const DataOrder::Draw& draw, uint64_t slot,
                                                       const Accept& accept) {
  const Sample clip = to_sample(ahead_.read(slot, draw));
  if (!accept(std::string(clip.key()))) return std::nullopt;
  json facts = parse_facts(clip.text("json").value_or("null"));
  if (facts.is_discarded()) facts = json();
  std::string why;
  auto tensors = signals_.of(facts, why);
  if (!tensors) raise(KINORA_ERROR_DATA, "{}: {}", clip.key(), why);
  // Frames are counted as an encode job's cache counts them: those that are taken, one of `every`.
  const int64_t taken = (length(clip, facts) + options_.every - 1) / options_.every,
                starts = taken - options_.frames + 1;
  if (starts < 1)
    raise(KINORA_ERROR_DATA, "{}: {} frames where a window needs {}", clip.key(), taken, options_.frames);
  const double u = sample_uniform({1}, seed_, static_cast<int64_t>(slot), "window.start").item<double>();
  const int64_t first = std::min(static_cast<int64_t>(u * static_cast<double>(starts)), starts - 1);
  tensors->merge(encoder_(frames(clip, first * options_.every)));
  (*tensors)["text"] = text_(std::string(clip.text("txt").value_or("")));
  if (const double fps = number_in(facts, "fps"); fps > 0) fps_ = fps / static_cast<double>(options_.every);
  return Window{fmt::format("{}@{}", clip.key(), first), *std::move(tensors)};
}

int64_t LiveWindows::length(const Sample& clip, const json& facts) {
  if (const double frames = number_in(facts, "frames"); frames >= 1 && frames < 1e9)
    return static_cast<int64_t>(frames);
  const Sample probed = probe_(clip);
  return static_cast<int64_t>(number_in(parse_facts(probed.text("json").value_or("null")), "frames"));
}

at::Tensor LiveWindows::frames(Sample clip, int64_t first) {
  clip.set("first", std::to_string(first));
  const at::Tensor out = frames_of_sample(read_(clip));
  if (out.size(0) != options_.frames)
    raise(KINORA_ERROR_DATA,
          "{}: {} frames from number {} on where its facts promise {}; fix the fact frames, or remove it",
          clip.key(), out.size(0), first, options_.frames);
  return out;
}

}  // namespace kinora::core
