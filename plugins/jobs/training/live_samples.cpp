#include "plugins/jobs/training/live_samples.hpp"

#include <algorithm>
#include <chrono>
#include <set>

#include "core/base/facts.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "plugins/jobs/loading/held_out.hpp"
#include "plugins/jobs/training/strip.hpp"

namespace kinora::core {

LiveSamples::LiveSamples(const JobView& encode, const TrainOptions& options, at::Device device)
    : facts_(LatentFacts::of_folder(encode.folder_of(encode.spec()))),
      share_(options.validation),
      many_sizes_(window_sizes(encode.options<EncodeOptions>()).size() > 1) {
  thread_ = std::thread([this, encode, options, device] { work(encode, options, device); });
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return is_open_ || broken_; });
  if (!broken_) return;
  lock.unlock();
  thread_.join();
  std::rethrow_exception(broken_);
}

LiveSamples::~LiveSamples() {
  {
    const std::scoped_lock lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

bool LiveSamples::accepts(bool of_validation, const std::string& key) const {
  return share_ == 0 || (hash_share(key) < share_) == of_validation;
}

void LiveSamples::require_same(const JobView& encode, const std::string& digest) {
  const auto facts = object_in_file(encode.folder_of(encode.spec()) / "latents.json");
  if (text_in(facts, "data") == digest) return;
  raise(KINORA_ERROR_INVALID,
        "the shards have changed since job '{}' measured their latents; remove its folder {} and run again",
        encode.spec().name, encode.folder_of(encode.spec()).string());
}

void LiveSamples::work(const JobView& encode, const TrainOptions& options, at::Device device) {
  std::unique_lock lock(mutex_, std::defer_lock);
  try {
    use_threads(options.threads);
    LiveWindows windows(encode, device);
    require_same(encode, windows.order().digest());
    pass_ = windows.order().pass();
    find_validation(windows, options);
    lock.lock();
    is_open_ = true;
    changed_.notify_all();
    while (true) {
      changed_.wait(lock, [&] { return ends_ || !wanted_.empty(); });
      if (ends_) return;
      const Wanted next = wanted_.front();
      wanted_.pop_front();
      making_ = next;
      lock.unlock();
      Made made;
      try {
        made = make(windows, next);
      } catch (...) {
        made = std::current_exception();
      }
      lock.lock();
      making_.reset();
      made_.insert_or_assign(next, std::move(made));
      bytes_ += static_cast<int64_t>(windows.take_bytes());
      if (failed_.size() != windows.failed_samples().size()) failed_ = windows.failed_samples();
      changed_.notify_all();
    }
  } catch (...) {
    if (!lock.owns_lock()) lock.lock();
    broken_ = std::current_exception();
    changed_.notify_all();
  }
}

LiveSamples::Made LiveSamples::make(LiveWindows& windows, const Wanted& wanted) const {
  const auto accept = [&](const std::string& key) { return accepts(wanted.what == What::validation, key); };
  if (wanted.what == What::positions) {
    std::vector<int64_t> out;
    for (int64_t i = 0; i < wanted.count; ++i)
      out.push_back(windows.positions(wanted.slot + static_cast<uint64_t>(i), accept));
    return out;
  }
  auto window = windows.at(wanted.slot, accept);
  return facts_.item(std::move(window.key), std::move(window.tensors));
}

// The first clips of the order that are held out; the first of all without held-out ones.
void LiveSamples::find_validation(LiveWindows& windows, const TrainOptions& options) {
  if (options.validation_every == 0 && options.sample_every == 0) return;
  std::set<std::string> seen;
  for (uint64_t slot = 0;
       slot < pass_ && validation_.size() < static_cast<size_t>(options.validation_samples); ++slot)
    if (const std::string key = windows.key(slot); accepts(true, key) && seen.insert(key).second)
      validation_.push_back(slot);
  if (validation_.empty())
    raise(KINORA_ERROR_INVALID,
          "validation = {} leaves none of {} samples to validation; choose another share", share_, pass_);
}

LiveSamples::Made LiveSamples::get(const Wanted& wanted) {
  std::unique_lock lock(mutex_);
  const bool is_asked = std::find(wanted_.begin(), wanted_.end(), wanted) != wanted_.end();
  const auto begin = std::chrono::steady_clock::now();
  if (!made_.contains(wanted) && !is_asked && making_ != wanted) {
    wanted_.push_front(wanted);
    changed_.notify_all();
  }
  changed_.wait(lock, [&] { return made_.contains(wanted) || broken_; });
  waited_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (broken_) std::rethrow_exception(broken_);
  Made made = std::move(made_.extract(wanted).mapped());
  if (auto* error = std::get_if<std::exception_ptr>(&made)) std::rethrow_exception(*error);
  return made;
}

LatentItem LiveSamples::drawn(int64_t n) {
  return std::get<LatentItem>(get({static_cast<uint64_t>(n), What::train}));
}

void LiveSamples::prepare(const std::vector<int64_t>& numbers) {
  const std::scoped_lock lock(mutex_);
  for (const int64_t n : numbers)
    if (const Wanted wanted{static_cast<uint64_t>(n), What::train}; !made_.contains(wanted))
      wanted_.push_back(wanted);
  changed_.notify_all();
}

std::vector<int64_t> LiveSamples::positions(int64_t first, int64_t count) {
  return std::get<std::vector<int64_t>>(get({static_cast<uint64_t>(first), What::positions, count}));
}

LatentItem LiveSamples::validation(size_t i) {
  const auto kept = kept_.find(i);
  if (kept != kept_.end()) return kept->second;
  return kept_[i] = std::get<LatentItem>(get({validation_.at(i), What::validation}));
}

std::optional<int64_t> LiveSamples::take_bytes() {
  const std::scoped_lock lock(mutex_);
  return std::exchange(bytes_, 0);
}

std::set<std::string> LiveSamples::failed() const {
  const std::scoped_lock lock(mutex_);
  return failed_;
}

nlohmann::json LiveSamples::summary() const {
  return {{"samples", pass_}, {"held_out", share_ > 0 ? validation_.size() : 0}, {"failed", failed().size()}};
}

}  // namespace kinora::core
