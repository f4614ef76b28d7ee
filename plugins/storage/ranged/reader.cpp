#include "plugins/storage/ranged/reader.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>

namespace kinora::ranged {
namespace {

constexpr uint64_t kSmallest = 64 << 10;

}  // namespace

RangedReader::RangedReader(std::unique_ptr<RangedObject> object, uint64_t memory, uint64_t parallel)
    : object_(std::move(object)),
      parallel_(parallel),
      ahead_(memory / 4),
      largest_(std::max(kSmallest, memory / 16)) {
  const RangedObject::Start opened = object_->open(kSmallest);
  size_ = opened.size;
  auto first = std::make_shared<Window>();
  first->end = opened.first.size();
  first->bytes.assign(opened.first.begin(), opened.first.end());
  std::promise<void> done;
  done.set_value();
  first->ready = done.get_future().share();
  streams_[0].windows.push_back(std::move(first));
}

// Starts all requests at once, then waits for each.
RangedReader::~RangedReader() {
  for (auto& s : streams_)
    for (auto& w : s.windows) w->stop = true;
}

uint64_t RangedReader::read(uint64_t offset, void* to, uint64_t size) {
  if (offset >= size_) return 0;
  size = std::min(size, size_ - offset);
  char* out = static_cast<char*>(to);
  if (size >= 2 * largest_) {
    straight(offset, out, size);
    return size;
  }
  for (uint64_t done = 0; done < size;) done += some(offset + done, out + done, size - done);
  return size;
}

uint64_t RangedReader::some(uint64_t offset, char* to, uint64_t size) {
  Windows dropped;
  std::shared_ptr<Window> window;
  {
    const std::lock_guard lock(mutex_);
    window = window_at(offset, size, dropped);
  }
  try {
    window->ready.get();
  } catch (...) {
    const std::lock_guard lock(mutex_);
    forget(window, dropped);  // the next read tries again
    throw;
  }
  const uint64_t n = std::min(size, window->end - offset);
  std::memcpy(to, window->bytes.data() + (offset - window->begin), n);
  return n;
}

std::shared_ptr<RangedReader::Window> RangedReader::fetch(uint64_t begin, uint64_t size) {
  auto out = std::make_shared<Window>();
  out->begin = begin;
  out->end = std::min(size_, begin + size);
  // By address: the window waits for its request before it ends.
  out->ready = std::async(std::launch::async, [this, w = out.get()] {
                 w->bytes.resize(w->end - w->begin);
                 object_->read(w->begin, w->bytes.size(), w->bytes.data(), &w->stop);
               }).share();
  return out;
}

std::shared_ptr<RangedReader::Window> RangedReader::window_at(uint64_t offset, uint64_t size,
                                                              Windows& dropped) {
  for (Stream& s : streams_) {
    if (s.windows.empty() || offset < s.windows.front()->begin) continue;
    const uint64_t end = s.windows.back()->end;
    const bool is_next = offset >= s.next && offset - s.next < kSmallest && offset - end < kSmallest;
    if (offset < end || is_next) return go_on(s, offset, size, dropped);
  }
  return jump(offset, size, dropped);
}

std::shared_ptr<RangedReader::Window> RangedReader::go_on(Stream& s, uint64_t offset, uint64_t size,
                                                          Windows& dropped) {
  if (const uint64_t end = s.windows.back()->end; offset >= end)
    s.windows.push_back(
        fetch(end, std::clamp(std::max(size + (offset - end), s.run / 4), kSmallest, largest_)));
  const auto found =
      *std::find_if(s.windows.begin(), s.windows.end(), [&](const auto& w) { return offset < w->end; });
  const uint64_t got = std::min(size, found->end - offset);
  const bool is_forward = offset >= s.next && offset - s.next < kSmallest;
  s.run = is_forward ? s.run + got : got;
  s.next = offset + got;
  s.last_use = ++uses_;
  // The previous window stays, for small steps back.
  while (s.windows.size() > 2 && s.windows[1]->end <= offset) {
    dropped.push_back(std::move(s.windows.front()));
    s.windows.pop_front();
  }
  fetch_ahead(s);
  return found;
}

std::shared_ptr<RangedReader::Window> RangedReader::jump(uint64_t offset, uint64_t size, Windows& dropped) {
  Stream& s = *std::min_element(streams_.begin(), streams_.end(),
                                [](const Stream& a, const Stream& b) { return a.last_use < b.last_use; });
  std::move(s.windows.begin(), s.windows.end(), std::back_inserter(dropped));
  s.windows.clear();
  s.windows.push_back(fetch(offset, std::clamp(size, kSmallest, largest_)));
  s.last_use = ++uses_;
  s.run = std::min(size, s.windows.back()->end - offset);
  s.next = offset + s.run;
  return s.windows.back();
}

// Only for long forward runs: the first windows of a run are fetched when they are needed.
void RangedReader::fetch_ahead(Stream& s) {
  if (s.run < 3 * kSmallest) return;
  const uint64_t target = std::min(size_, s.next + std::min(ahead_, s.run));
  const uint64_t size = std::clamp(s.run / 4, kSmallest, largest_);
  while (s.windows.back()->end < target) s.windows.push_back(fetch(s.windows.back()->end, size));
}

void RangedReader::forget(const std::shared_ptr<Window>& window, Windows& dropped) {
  for (Stream& s : streams_)
    if (std::find(s.windows.begin(), s.windows.end(), window) != s.windows.end()) {
      std::move(s.windows.begin(), s.windows.end(), std::back_inserter(dropped));
      s.windows.clear();
    }
}

void RangedReader::straight(uint64_t offset, char* to, uint64_t size) {
  const uint64_t piece = std::max<uint64_t>(largest_, 1 << 20);
  const uint64_t pieces = (size + piece - 1) / piece;
  std::atomic<uint64_t> next{0};
  std::atomic<bool> stop{false};  // for this call: if one request failed, the others are useless
  const auto work = [&] {
    try {
      for (uint64_t i; !stop && (i = next++) < pieces;)
        object_->read(offset + i * piece, std::min(piece, size - i * piece), to + i * piece, &stop);
    } catch (...) {
      stop = true;
      throw;
    }
  };
  std::vector<std::future<void>> others;
  const auto workers = std::min(parallel_, pieces);
  for (uint64_t i = 1; i < workers; ++i) others.push_back(std::async(std::launch::async, work));
  std::exception_ptr first;
  const auto keep = [&](auto&& f) {
    try {
      f();
    } catch (const Error& e) {
      if (!first || e.code() != KINORA_ERROR_CANCELLED) first = std::current_exception();
    } catch (...) {
      first = std::current_exception();
    }
  };
  keep(work);
  for (auto& o : others) keep([&] { o.get(); });
  if (first) std::rethrow_exception(first);
}

}  // namespace kinora::ranged
