#include "plugins/jobs/training/live/live_windows.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "core/base/facts.hpp"
#include "core/base/log.hpp"
#include "core/torch/tensors/noise.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "plugins/jobs/training/media/clips.hpp"

namespace kinora::core {
namespace {

json read_options(const WindowSize& size, int64_t every) {
  return {{"height", size.height},
          {"width", size.width},
          {"stride", every},
          {"frames", size.frames},
          {"memory", std::max(3 * size.frames * size.height * size.width, int64_t{1} << 20)}};
}

bool is_of_the_sample(const Error& e) {
  return e.code() == KINORA_ERROR_DATA || e.code() == KINORA_ERROR_UNSUPPORTED ||
         e.code() == KINORA_ERROR_NOT_FOUND;
}

}  // namespace

LiveWindows::LiveWindows(const JobView& encode, at::Device device)
    : options_(encode.options<EncodeOptions>()),
      job_(encode.spec().name),
      seed_(static_cast<uint64_t>(encode.run().seed)),
      order_(*encode.spec().data, seed_),
      sizes_(window_sizes(options_)),
      probe_(encode.runtime(), "video.probe", json{{"count", true}}, {.finishes = true}),
      signals_(options_.signals, options_.every),
      encoder_(encode, options_, device),
      text_(encode, encode.spec(), device),
      fps_(24.0 / static_cast<double>(options_.every)) {
  for (const auto& size : sizes_)
    read_.push_back(std::make_unique<OneStage>(
        encode.runtime(), "video.read", read_options(size, options_.every), Isolation{.finishes = true}));
}

void LiveWindows::find(uint64_t slot, const std::function<bool(const DataOrder::Draw&)>& make) {
  order_.find_usable(slot, [&](const DataOrder::Draw& draw, std::string& why) {
    try {
      return make(draw);
    } catch (const Error& e) {
      if (!is_of_the_sample(e)) throw;
      why = e.what();
      const std::string which = order_.text_of(draw);
      if (failed_.insert(which).second) log_warn("{}: {} is left out: {}", job_, which, why);
      return false;
    }
  });
}

LiveWindows::Window LiveWindows::at(uint64_t slot, const Accept& accept) {
  const at::NoGradGuard off;
  std::optional<Window> out;
  find(slot, [&](const DataOrder::Draw& draw) {
    out = window(draw, slot, accept);
    return out.has_value();
  });
  return *std::move(out);
}

int64_t LiveWindows::positions(uint64_t slot, const Accept& accept) {
  int64_t out = 0;
  find(slot, [&](const DataOrder::Draw& draw) {
    auto& set = order_.set(draw.set);
    const std::string key = set.key(draw.place);
    if (!accept(key)) return false;
    auto shape = told_shape(set.facts(draw.place));
    if (!shape) shape = probed_shape(draw, read(draw));
    const auto latent = encoder_.shape(sizes_[size_for(key, *shape).second]);
    out = std::accumulate(latent.end() - 3, latent.end(), int64_t{1}, std::multiplies<>());
    return true;
  });
  return out;
}

Sample LiveWindows::read(const DataOrder::Draw& draw) {
  auto sample = order_.set(draw.set).read(draw.place);
  for (const auto& field : sample.fields) bytes_ += field.bytes.size();
  return to_sample(std::move(sample));
}

std::optional<LiveWindows::Known> LiveWindows::known(const DataOrder::Draw& draw, const Accept& accept) {
  Sample clip = read(draw);
  const std::string key(clip.key());
  if (!accept(key)) return std::nullopt;
  json facts = parse_facts(clip.text("json").value_or("null"));
  if (facts.is_discarded()) facts = json();
  const auto told = told_shape(facts);
  const auto [taken, size] = size_for(key, told ? *told : probed_shape(draw, clip));
  return Known{std::move(clip), std::move(facts), taken, size};
}

std::pair<int64_t, size_t> LiveWindows::size_for(const std::string& key, WindowSize shape) const {
  // Frames are counted as an encode job's cache counts them: those that are taken, one of `every`.
  shape.frames = (shape.frames + options_.every - 1) / options_.every;
  if (const auto size = choose_size(sizes_, shape)) return {shape.frames, *size};
  const auto shortest = std::min_element(sizes_.begin(), sizes_.end(),
                                         [](const auto& a, const auto& b) { return a.frames < b.frames; });
  raise(KINORA_ERROR_DATA, "{}: {} frames where a window needs {}", key, shape.frames, shortest->frames);
}

std::optional<LiveWindows::Window> LiveWindows::window(const DataOrder::Draw& draw, uint64_t slot,
                                                       const Accept& accept) {
  const auto found = known(draw, accept);
  if (!found) return std::nullopt;
  const Sample& clip = found->clip;
  std::string why;
  auto tensors = signals_.of(found->facts, why);
  if (!tensors) raise(KINORA_ERROR_DATA, "{}: {}", clip.key(), why);
  const int64_t starts = found->taken - sizes_[found->size].frames + 1;
  const double u = sample_uniform({1}, seed_, static_cast<int64_t>(slot), "window.start").item<double>();
  const int64_t first = std::min(static_cast<int64_t>(u * static_cast<double>(starts)), starts - 1);
  tensors->merge(encoder_(frames(*found, first * options_.every)));
  (*tensors)["text"] = text_(std::string(clip.text("txt").value_or("")));
  if (const double fps = number_in(found->facts, "fps"); fps > 0)
    fps_ = fps / static_cast<double>(options_.every);
  return Window{fmt::format("{}@{}", clip.key(), first), *std::move(tensors), sizes_[found->size]};
}

std::optional<WindowSize> LiveWindows::told_shape(const json& facts) const {
  const auto whole = [&](const char* name) {
    const double number = number_in(facts, name);
    return number >= 1 && number < 1e9 ? static_cast<int64_t>(number) : 0;
  };
  WindowSize out{whole("frames"), whole("height"), whole("width")};
  if (out.frames == 0) return std::nullopt;
  if (sizes_.size() == 1) return WindowSize{out.frames, sizes_[0].height, sizes_[0].width};
  if (out.height == 0 || out.width == 0) return std::nullopt;
  if (std::llround(number_in(facts, "rotation")) % 180 != 0) std::swap(out.height, out.width);
  return out;
}

WindowSize LiveWindows::probed_shape(const DataOrder::Draw& draw, const Sample& clip) {
  constexpr size_t kMost = 100000;
  const auto id = std::tuple(draw.set, draw.place.shard, draw.place.sample);
  if (const auto before = probed_.find(id); before != probed_.end()) return before->second;
  const Sample probed = probe_(clip);
  const std::string key(clip.key());
  const auto shape = told_shape(parse_facts(probed.text("json").value_or("null")));
  if (!shape) raise(KINORA_ERROR_DATA, "{}: it has no frames", key);
  if (probed_.size() == kMost) probed_.clear();
  return probed_[id] = *shape;
}

at::Tensor LiveWindows::frames(const Known& known, int64_t first) {
  Sample clip = known.clip;
  clip.set("first", std::to_string(first));
  const int64_t wanted = sizes_[known.size].frames;
  const at::Tensor out = frames_of_sample((*read_[known.size])(clip));
  if (out.size(0) != wanted)
    raise(KINORA_ERROR_DATA,
          "{}: {} frames from number {} on where its facts promise {}; fix the fact frames, or remove it",
          clip.key(), out.size(0), first, wanted);
  return out;
}

}  // namespace kinora::core
