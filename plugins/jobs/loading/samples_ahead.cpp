#include "plugins/jobs/loading/samples_ahead.hpp"

#include <algorithm>
#include <chrono>

#include "core/base/clock.hpp"
#include "plugins/jobs/curation/inputs.hpp"

namespace kinora::core {
namespace {

bool is_same(const DataOrder::Draw& a, const DataOrder::Draw& b) {
  return a.set == b.set && a.place.shard == b.place.shard && a.place.sample == b.place.sample;
}

size_t readers_of(DataOrder& order, const DataReading& reading) {
  constexpr size_t kOfStorage = 4;
  if (reading.readers >= 0) return static_cast<size_t>(reading.readers);
  for (size_t i = 0; i < order.sets(); ++i)
    if (is_remote(order.set(i).path())) return kOfStorage;
  return 0;
}

}  // namespace

uint64_t SlotTurns::next(uint64_t slot) const {
  if (!slots.empty()) {
    const auto at = std::find(slots.begin(), slots.end(), slot);
    return at == slots.end() || at + 1 == slots.end() ? UINT64_MAX : *(at + 1);
  }
  const uint64_t at = (slot + of - first % of) % of;
  return at + 1 < count ? slot + 1 : slot - at + of;
}

SamplesAhead::SamplesAhead(DataOrder& order, const DataReading& reading)
    : order_(order), memory_(reading.memory), readers_(readers_of(order, reading)) {}

SamplesAhead::~SamplesAhead() {
  {
    const std::scoped_lock lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  for (auto& thread : threads_) thread.join();
}

WebDatasetSample SamplesAhead::read(uint64_t slot, const DataOrder::Draw& draw) {
  const auto start = std::chrono::steady_clock::now();
  try {
    const auto entry = awaited(slot, draw);
    if (entry && entry->error) std::rethrow_exception(entry->error);
    auto out = entry ? std::move(entry->sample) : order_.set(draw.set).read(draw.place);
    add_waited(seconds_since(start), 1);
    return out;
  } catch (...) {
    add_waited(seconds_since(start), 0);
    throw;
  }
}

void SamplesAhead::add_waited(double seconds, uint64_t samples) {
  const std::scoped_lock lock(mutex_);
  counts_.waited += seconds;
  counts_.samples += samples;
}

std::shared_ptr<SamplesAhead::Entry> SamplesAhead::awaited(uint64_t slot, const DataOrder::Draw& draw) {
  Lock lock(mutex_);
  auto out = take(slot, draw);
  if (!out) return nullptr;
  changed_.wait(lock, [&] { return out->is_done; });
  used_ -= out->bytes;
  changed_.notify_all();
  return out;
}

// The draw's entry leaves the queue; null if there is none.
std::shared_ptr<SamplesAhead::Entry> SamplesAhead::take(uint64_t slot, const DataOrder::Draw& draw) {
  if (readers_ == 0 || !turns_.are_known() || slot_ == slot) return nullptr;
  const bool is_next = slot_ && turns_.next(*slot_) == slot;
  slot_ = slot;
  run_ = is_next ? run_ + 1 : 0;
  std::shared_ptr<Entry> out;
  if (is_next && !ahead_.empty() && ahead_.front()->slot == slot && is_same(ahead_.front()->draw, draw)) {
    out = std::move(ahead_.front());
    ahead_.pop_front();
  } else {
    for (const auto& entry : ahead_) drop(*entry);
    ahead_.clear();
    todo_.clear();
  }
  plan(slot);
  return out;
}

void SamplesAhead::drop(Entry& entry) {
  entry.is_dropped = true;
  if (entry.is_done) used_ -= entry.bytes;
  granted_ = std::max(granted_, entry.number + 1);
}

void SamplesAhead::plan(uint64_t after) {
  const uint64_t most = std::min(kMostAhead, kGrowth * run_);
  uint64_t slot = turns_.next(ahead_.empty() ? after : ahead_.back()->slot);
  for (; ahead_.size() < most && slot < turns_.end; slot = turns_.next(slot)) {
    auto entry = std::make_shared<Entry>();
    entry->slot = slot;
    entry->draw = order_.at(slot);
    entry->number = planned_++;
    todo_.push_back(entry);
    ahead_.push_back(std::move(entry));
  }
  while (!todo_.empty() && threads_.size() < readers_) threads_.emplace_back([this] { work(); });
  changed_.notify_all();
}

void SamplesAhead::work() {
  Lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return ends_ || !todo_.empty(); });
    if (ends_) return;
    const auto entry = std::move(todo_.front());
    todo_.pop_front();
    fetch(*entry, lock);
  }
}

void SamplesAhead::fetch(Entry& entry, Lock& lock) {
  DataSet& set = order_.set(entry.draw.set);
  const auto unlocked = [&](const auto& f) {
    lock.unlock();
    try {
      f();
    } catch (...) {
      entry.error = std::current_exception();
    }
    lock.lock();
  };
  uint64_t bytes = 0;
  unlocked([&] { bytes = set.bytes(entry.draw.place); });
  changed_.wait(lock, [&] { return ends_ || entry.is_dropped || (entry.number == granted_ && fits(bytes)); });
  if (ends_ || entry.is_dropped) return;
  grant(entry, bytes);
  if (!entry.error) unlocked([&] { entry.sample = set.read(entry.draw.place); });
  if (entry.is_dropped) used_ -= entry.bytes;
  entry.is_done = true;
  changed_.notify_all();
}

void SamplesAhead::grant(Entry& entry, uint64_t bytes) {
  ++granted_;
  entry.bytes = bytes;
  used_ += bytes;
  counts_.ahead_peak = std::max(counts_.ahead_peak, used_);
  changed_.notify_all();
}

DataCounts SamplesAhead::counts() const {
  Lock lock(mutex_);
  DataCounts out = counts_;
  for (const auto& entry : ahead_) out.ready += entry->is_done ? 1 : 0;
  lock.unlock();
  for (size_t i = 0; i < order_.sets(); ++i) order_.set(i).add_to(out);
  return out;
}

}  // namespace kinora::core
