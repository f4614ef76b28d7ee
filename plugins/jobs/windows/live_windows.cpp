#include "plugins/jobs/windows/live_windows.hpp"

#include <algorithm>
#include <cmath>

#include <ATen/ATen.h>

#include "core/base/facts.hpp"
#include "core/torch/tensors/noise.hpp"
#include "core/torch/tensors/torch_guard.hpp"

namespace kinora::core {
namespace {

json read_options(const WindowSize& size, int64_t every) {
  return {{"height", size.height},
          {"width", size.width},
          {"stride", every},
          {"frames", size.frames},
          {"memory", std::max(3 * size.frames * size.height * size.width, int64_t{1} << 20)}};
}

json facts_of(const Sample& clip) {
  json facts = parse_facts(clip.text("json").value_or("null"));
  if (facts.is_discarded())
    raise(KINORA_ERROR_DATA,
          "{}: its json is not JSON, or nested more than 64 levels deep; fix it, or remove the sample",
          clip.key());
  return facts;
}

TransformLists lists_of(const JobView& job) {
  return transform_lists(job.runtime().registry(), job.spec().list("transforms"));
}

Isolation isolation_of(const JobView& job) {
  return {.patience = NeededCall().patience, .trusts_media = job.spec().data->reading.trusted};
}

bool is_of_the_sample(const Error& e) {
  return e.code() == KINORA_ERROR_DATA || e.code() == KINORA_ERROR_UNSUPPORTED ||
         e.code() == KINORA_ERROR_NOT_FOUND;
}

}  // namespace

LiveWindows::LiveWindows(const JobView& job, std::vector<WindowSize> sizes, int64_t every)
    : seed_(static_cast<uint64_t>(job.run().seed)),
      order_(*job.spec().data, seed_),
      ahead_(order_, job.spec().data->reading),
      lost_(job.spec().name, job.spec().data->reading),
      cut_offs_(job.spec().name),
      sizes_(std::move(sizes)),
      every_(every),
      probe_(job.runtime(), "video.probe", json{{"count", true}}, isolation_of(job)),
      before_(job.runtime().registry(), lists_of(job).of_samples, seed_, isolation_of(job).trusts_media),
      after_(job.runtime().registry(), lists_of(job).of_windows, seed_, isolation_of(job).trusts_media),
      transforms_frames_(!lists_of(job).of_windows.empty()) {
  order_.count_unread(lost_);
  for (const auto& size : sizes_)
    read_.push_back(std::make_unique<OneStage>(job.runtime(), "video.read", read_options(size, every_),
                                               isolation_of(job)));
}

void LiveWindows::find(uint64_t slot, const std::function<bool(const DataOrder::Draw&)>& make) {
  const auto use = [&](const DataOrder::Draw& draw, Unused& unused) {
    try {
      if (make(draw)) return true;
      unused = unused_;
    } catch (const Error& e) {
      if (!is_of_the_sample(e)) throw;
      unused = {.why = e.what()};
    }
    return false;
  };
  order_.find_usable(slot, use, &lost_);
}

// Nothing if the transforms leave the sample out.
std::optional<Sample> LiveWindows::transformed(Transforms& by, Sample sample, uint64_t slot) {
  const std::string key(sample.key());
  auto out = by(std::move(sample), slot, unused_);
  if (!out && unused_.kind == Unused::Kind::failed) raise(KINORA_ERROR_DATA, "{}: {}", key, unused_.why);
  return out;
}

bool LiveWindows::is_accepted(const Accept& accept, const std::string& key) {
  const bool out = accept(key);
  if (!out) unused_ = held_out();
  return out;
}

void LiveWindows::at(uint64_t slot, const Accept& accept, const Use& use,
                     const std::optional<WindowSize>& size) {
  find(slot, [&](const DataOrder::Draw& draw) {
    auto made = window(draw, slot, accept, size);
    if (made) use(*std::move(made));
    return made.has_value();
  });
}

json LiveWindows::loading() const {
  json out = ahead_.counts().to_json();
  out.update(lost_.counts());
  return out;
}

WindowSize LiveWindows::size(uint64_t slot, const Accept& accept) {
  size_t out = 0;
  find(slot, [&](const DataOrder::Draw& draw) {
    auto& set = order_.set(draw.set);
    const std::string key = set.key(draw.place);
    if (!is_accepted(accept, key)) return false;
    auto shape = shape_by_facts(set.facts(draw.place));
    if (!shape) shape = probed_shape(draw, [&] { return to_sample(set.read(draw.place)); });
    const auto chosen = taken(key, *shape);
    if (chosen) out = chosen->size;
    return chosen.has_value();
  });
  return sizes_[out];
}

std::optional<LiveWindows::KnownClip> LiveWindows::known(const DataOrder::Draw& draw, uint64_t slot,
                                                         const Accept& accept,
                                                         const std::optional<WindowSize>& size) {
  Sample stored = to_sample(ahead_.read(slot, draw));
  const std::string key(stored.key());
  if (!is_accepted(accept, key)) return std::nullopt;
  auto clip = transformed(before_, std::move(stored), slot);
  if (!clip) return std::nullopt;
  const auto told = shape_by_facts(facts_of(*clip));
  auto found = taken(key, told ? *told : probed_shape(draw, [&] { return *clip; }));
  if (!found) return std::nullopt;
  if (size && found->frames < size->frames) {
    unused_ = {Unused::Kind::unwanted, "shorter than the window that they would replace", ""};
    return std::nullopt;
  }
  if (size)
    found->size = static_cast<size_t>(std::find(sizes_.begin(), sizes_.end(), *size) - sizes_.begin());
  return KnownClip{*std::move(clip), *found};
}

std::optional<LiveWindows::Taken> LiveWindows::taken(const std::string& key, const WindowSize& shape) {
  // Frames are counted as an encode job's cache counts them: those that are taken, one of `every`.
  const int64_t frames = (shape.frames + every_ - 1) / every_;
  if (const auto size = choose_size(sizes_, {frames, shape.height, shape.width})) return Taken{frames, *size};
  const int64_t least = std::min_element(sizes_.begin(), sizes_.end(), [](const auto& a, const auto& b) {
                          return a.frames < b.frames;
                        })->frames;
  unused_ = {
      Unused::Kind::too_short, fmt::format("{}: {} frames where a window needs {}", key, frames, least),
      fmt::format("where = \"frames >= {}\" in the table of data leaves such clips out from the beginning",
                  (least - 1) * every_ + 1)};
  return std::nullopt;
}

std::optional<LiveWindows::Window> LiveWindows::window(const DataOrder::Draw& draw, uint64_t slot,
                                                       const Accept& accept,
                                                       const std::optional<WindowSize>& wanted) {
  const auto found = known(draw, slot, accept, wanted);
  if (!found) return std::nullopt;
  const WindowSize& size = sizes_[found->taken.size];
  const int64_t starts = found->taken.frames - size.frames + 1;
  const double u = sample_uniform({1}, seed_, static_cast<int64_t>(slot), "window.start").item<double>();
  const int64_t first = std::min(static_cast<int64_t>(u * static_cast<double>(starts)), starts - 1);
  const auto told = [&](const Sample& sample, std::function<at::Tensor()> frames, const WindowSize& its) {
    return Window{fmt::format("{}@{}", found->clip.key(), first),
                  std::move(frames),
                  facts_of(sample),
                  std::string(sample.text("txt").value_or("")),
                  found->clip,
                  first * every_,
                  its};
  };
  if (!transforms_frames_)
    return told(
        found->clip,
        [this, known = *found, first] { return frames_of_sample(decoded(known, first * every_)); }, size);
  const auto made = transformed(after_, decoded(*found, first * every_), slot);
  if (!made) return std::nullopt;
  const at::Tensor frames = frames_of_sample(*made);
  const auto left = frames.sizes();
  if (left[0] != size.frames || (sizes_.size() > 1 && (left[1] != size.height || left[2] != size.width)))
    raise(KINORA_ERROR_INVALID,
          "transforms: they leave a window of {}x{}x{} where it needs {}x{}x{} (frames, height, width); "
          "remove the one that does",
          left[0], left[1], left[2], size.frames, size.height, size.width);
  return told(*made, [frames] { return frames; }, {left[0], left[1], left[2]});
}

std::optional<WindowSize> LiveWindows::shape_by_facts(const json& facts) const {
  const auto whole = [&](const char* name) {
    const double number = number_in(facts, name);
    return number >= 1 && number < 1e9 ? static_cast<int64_t>(number) : 0;
  };
  WindowSize out{whole("frames"), whole("height"), whole("width")};
  if (out.frames == 0) return std::nullopt;
  if (sizes_.size() == 1) return WindowSize{out.frames, sizes_[0].height, sizes_[0].width};
  if (out.height == 0 || out.width == 0) return std::nullopt;
  if (const double pixel = number_in(facts, "sample_aspect"); pixel > 0)
    out.width = std::max<int64_t>(1, std::llround(static_cast<double>(out.width) * pixel));
  if (std::llround(number_in(facts, "rotation")) % 180 != 0) std::swap(out.height, out.width);
  return out;
}

WindowSize LiveWindows::probed_shape(const DataOrder::Draw& draw, const std::function<Sample()>& read) {
  constexpr size_t kMost = 100000;
  const auto id = std::tuple(draw.set, draw.place.shard, draw.place.sample);
  if (const auto before = probed_.find(id); before != probed_.end()) return before->second;
  const Sample probed = probe_(read());
  const std::string key(probed.key());
  const auto shape = shape_by_facts(parse_facts(probed.text("json").value_or("null")));
  if (!shape) raise(KINORA_ERROR_DATA, "{}: it has no frames", key);
  if (probed_.size() == kMost) probed_.clear();
  return probed_[id] = *shape;
}

Sample LiveWindows::decoded(const KnownClip& known, int64_t first) {
  Sample clip = known.clip;
  clip.set("first", std::to_string(first));
  Sample out = (*read_[known.taken.size])(clip);
  if (const auto damage = damage_in(out); !damage.empty() && damage != damage_in(clip))
    raise(KINORA_ERROR_DATA, "{}: {}; replace its video, or remove the sample", clip.key(), damage);
  const auto* frames = out.tensor("frames");
  const int64_t count = frames ? frames->shape[0] : 0, wanted = sizes_[known.taken.size].frames;
  if (count != wanted)
    raise(KINORA_ERROR_DATA,
          "{}: {} frames from number {} on where its facts promise {}; fix the fact frames, or remove it",
          clip.key(), count, first, wanted);
  const WindowSize& size = sizes_[known.taken.size];
  cut_offs_.note(out, size.height, size.width);
  return out;
}

}  // namespace kinora::core
