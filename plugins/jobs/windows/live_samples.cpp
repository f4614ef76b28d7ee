#include "plugins/jobs/windows/live_samples.hpp"

#include "core/base/facts.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "plugins/jobs/media/strip.hpp"
#include "plugins/jobs/windows/encode_options.hpp"

namespace kinora::core {

LiveSamples::LiveSamples(const JobView& encode, const SampleOptions& options, at::Device device)
    : facts_(LatentFacts::of_folder(encode.folder_of(encode.spec()))),
      split_{options.held_out},
      sizes_(core::window_sizes(encode.options<EncodeOptions>()).size()),
      are_buckets_(sizes_ > 1 && options.are_buckets),
      ahead_([this, encode, options, device] { return open(encode, options, device); }) {}

void LiveSamples::require_same(const JobView& encode, const std::string& digest) {
  const auto facts = object_in_file(encode.folder_of(encode.spec()) / "latents.json");
  if (text_in(facts, "data") == digest) return;
  raise(KINORA_ERROR_INVALID,
        "the shards have changed since job '{}' measured their latents; remove its folder {} and run again",
        encode.spec().name, encode.folder_of(encode.spec()).string());
}

LiveSamples::Ahead::Make LiveSamples::open(const JobView& encode, const SampleOptions& options,
                                           at::Device device) {
  use_threads(options.threads);
  const auto windows = windows_ = std::make_shared<EncodedWindows>(encode, device);
  require_same(encode, windows->order().digest());
  pass_ = windows->order().pass();
  if (options.validation_samples > 0)
    validation_ = split_.validation(windows->order(), static_cast<size_t>(options.validation_samples));
  bytes_ = bytes_read();
  return [this, windows](const Wanted& wanted) {
    SlotTurns turns;
    if (wanted.what == What::train) {
      const std::scoped_lock lock(mutex_);
      turns = turns_;
    }
    windows->follow(std::move(turns));
    return make(*windows, wanted);
  };
}

LiveSamples::Item LiveSamples::make(EncodedWindows& windows, const Wanted& wanted) const {
  const auto accept = [&](const std::string& key) {
    return split_.accepts(wanted.what == What::validation, key);
  };
  if (wanted.what == What::sizes) {
    Item out;
    for (int64_t i = 0; i < wanted.count; ++i)
      out.sizes.push_back(windows.latent_size(wanted.slot + static_cast<uint64_t>(i), accept));
    return out;
  }
  auto window = windows.at(wanted.slot, accept, are_buckets_ && wanted.what == What::train);
  return {facts_.item(std::move(window.key), std::move(window.tensors)), {}};
}

LatentItem LiveSamples::drawn(int64_t n) {
  return ahead_.get({static_cast<uint64_t>(n), What::train}).sample;
}

SlotTurns LiveSamples::turns_of(const std::vector<int64_t>& numbers, int64_t stride) {
  if (sizes_ == 1 && stride > 0)
    return {.first = static_cast<uint64_t>(numbers.front()),
            .count = numbers.size(),
            .of = static_cast<uint64_t>(stride)};
  // The thread may still make samples of the row before.
  std::vector<uint64_t> slots(turns_.slots.end() - static_cast<std::ptrdiff_t>(row_), turns_.slots.end());
  slots.insert(slots.end(), numbers.begin(), numbers.end());
  row_ = numbers.size();
  return {.slots = std::move(slots)};
}

void LiveSamples::prepare(const std::vector<int64_t>& numbers, int64_t stride) {
  if (numbers.empty()) return;
  {
    const std::scoped_lock lock(mutex_);
    turns_ = turns_of(numbers, stride);
  }
  std::vector<Wanted> wanted;
  for (const int64_t n : numbers) wanted.push_back({static_cast<uint64_t>(n), What::train});
  ahead_.prepare(wanted);
}

std::vector<LatentSize> LiveSamples::latent_sizes(int64_t first, int64_t count) {
  return ahead_.get({static_cast<uint64_t>(first), What::sizes, count}).sizes;
}

LatentItem LiveSamples::validation(size_t i) {
  const auto kept = kept_.find(i);
  if (kept != kept_.end()) return kept->second;
  return kept_[i] = ahead_.get({validation_.at(i), What::validation}).sample;
}

int64_t LiveSamples::bytes_read() const {
  int64_t out = 0;
  for (const auto& [set, bytes] : windows_->counts().bytes) out += static_cast<int64_t>(bytes);
  return out;
}

int64_t LiveSamples::take_bytes() {
  const int64_t now = bytes_read();
  return now - std::exchange(bytes_, now);
}

nlohmann::json LiveSamples::summary() const {
  json out = windows_->lost().counts();
  out.update({{"samples", pass_},
              {"held_out", split_.held_out > 0 ? validation_.size() : 0},
              {"left_out", windows_->counts().left_out},
              {"loading", loading()}});
  return out;
}

}  // namespace kinora::core
