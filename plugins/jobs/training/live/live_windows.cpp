#include "plugins/jobs/training/live/live_windows.hpp"

#include <ATen/ATen.h>

#include "core/base/facts.hpp"
#include "core/base/log.hpp"
#include "core/torch/tensors/noise.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "plugins/jobs/training/media/clips.hpp"

namespace kinora::core {
namespace {

json read_options(const LiveWindows::Shape& o) {
  return {{"height", o.height},
          {"width", o.width},
          {"stride", o.every},
          {"frames", o.frames},
          {"memory", std::max(3 * o.frames * o.height * o.width, int64_t{1} << 20)}};
}

json facts_of(const Sample& clip) {
  json facts = parse_facts(clip.text("json").value_or("null"));
  return facts.is_discarded() ? json() : facts;
}

// Throws Error(KINORA_ERROR_DATA) if the transforms drop the sample or fail on it.
Sample transformed(Transforms& by, Sample sample, uint64_t slot) {
  const std::string key(sample.key());
  std::string why;
  if (auto out = by(std::move(sample), slot, why)) return *std::move(out);
  raise(KINORA_ERROR_DATA, "{}: {}", key, why);
}

bool is_of_the_sample(const Error& e) {
  return e.code() == KINORA_ERROR_DATA || e.code() == KINORA_ERROR_UNSUPPORTED ||
         e.code() == KINORA_ERROR_NOT_FOUND;
}

}  // namespace

LiveWindows::LiveWindows(const JobView& job, const Shape& shape)
    : shape_(shape),
      job_(job.spec().name),
      seed_(static_cast<uint64_t>(job.run().seed)),
      order_(*job.spec().data, seed_),
      read_(job.runtime(), "video.read", read_options(shape), {.finishes = true}),
      probe_(job.runtime(), "video.probe", json{{"count", true}}, {.finishes = true}),
      before_(job.runtime().registry(),
              transform_lists(job.runtime().registry(), job.spec().list("transforms")).of_samples, seed_),
      after_(job.runtime().registry(),
             transform_lists(job.runtime().registry(), job.spec().list("transforms")).of_windows, seed_) {}

void LiveWindows::at(uint64_t slot, const Accept& accept, const Use& use) {
  order_.find_usable(slot, [&](const DataOrder::Draw& draw, std::string& why) {
    try {
      auto made = window(draw, slot, accept);
      if (made) use(*std::move(made));
      return made.has_value();
    } catch (const Error& e) {
      if (!is_of_the_sample(e)) throw;
      why = e.what();
      const std::string which = order_.text_of(draw);
      if (failed_.insert(which).second) log_warn("{}: {} is left out: {}", job_, which, why);
    }
    return false;
  });
}

std::optional<LiveWindows::Window> LiveWindows::window(const DataOrder::Draw& draw, uint64_t slot,
                                                       const Accept& accept) {
  Sample stored = to_sample(order_.set(draw.set).read(draw.place));
  const std::string key(stored.key());
  if (!accept(key)) return std::nullopt;
  const Sample clip = transformed(before_, std::move(stored), slot);
  // Frames are counted as an encode job's cache counts them: those that are taken, one of `every`.
  const int64_t taken = (length(clip, facts_of(clip)) + shape_.every - 1) / shape_.every,
                starts = taken - shape_.frames + 1;
  if (starts < 1)
    raise(KINORA_ERROR_DATA, "{}: {} frames where a window needs {}", key, taken, shape_.frames);
  const double u = sample_uniform({1}, seed_, static_cast<int64_t>(slot), "window.start").item<double>();
  const int64_t first = std::min(static_cast<int64_t>(u * static_cast<double>(starts)), starts - 1);
  const Sample made = transformed(after_, decoded(clip, first * shape_.every), slot);
  Window out{fmt::format("{}@{}", key, first), frames_of_sample(made), facts_of(made),
             std::string(made.text("txt").value_or(""))};
  if (out.frames.size(0) != shape_.frames)
    raise(KINORA_ERROR_INVALID,
          "transforms: they leave {} frames of a window of {}; remove the one that does", out.frames.size(0),
          shape_.frames);
  return out;
}

int64_t LiveWindows::length(const Sample& clip, const json& facts) {
  if (const double frames = number_in(facts, "frames"); frames >= 1 && frames < 1e9)
    return static_cast<int64_t>(frames);
  const Sample probed = probe_(clip);
  return static_cast<int64_t>(number_in(parse_facts(probed.text("json").value_or("null")), "frames"));
}

Sample LiveWindows::decoded(Sample clip, int64_t first) {
  clip.set("first", std::to_string(first));
  Sample out = read_(clip);
  const auto* frames = out.tensor("frames");
  const int64_t count = frames ? frames->shape[0] : 0;
  if (count != shape_.frames)
    raise(KINORA_ERROR_DATA,
          "{}: {} frames from number {} on where its facts promise {}; fix the fact frames, or remove it",
          clip.key(), count, first, shape_.frames);
  return out;
}

}  // namespace kinora::core
