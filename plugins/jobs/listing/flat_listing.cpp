#include "plugins/jobs/listing/flat_listing.hpp"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <list>
#include <mutex>
#include <thread>

#include "core/base/cancel.hpp"
#include "core/plugin/host.hpp"
#include "kinora/error.hpp"
#include "plugins/jobs/listing/middle_name.hpp"

namespace kinora::core {
namespace {

constexpr int kPagesAtOnce = 32;
constexpr uint64_t kPageOfFiles = 1000;  // what S3 gives at most
constexpr int kPagesBeforeSplit = 4;     // of a range, so that not every small rest is halved again
constexpr int kProbesAtOnce = 4;         // of a range

class RangesOfFiles {
 public:
  RangesOfFiles(const PageOfFiles& page, uint64_t page_size, const TakeFiles& take)
      : page_(page), page_size_(page_size), take_(take) {}

  void run(int threads) {
    const std::vector<Listed> first = page_("", page_size_);
    take_(first);
    if (first.size() < page_size_) return;
    ranges_.push_back({.at = first.back().name, .pages = kPagesBeforeSplit});
    waiting_.push_back(&ranges_.back());
    {
      std::vector<std::jthread> workers;
      for (int i = 0; i < threads; ++i) workers.emplace_back([this] { work(); });
    }
    if (error_) std::rethrow_exception(error_);
  }

 private:
  // Names greater than `at` up to `until` (empty: without an end) are not found yet.
  struct Range {
    std::string at, until{};
    int pages = 0;  // since a part of it was split off
    bool is_active = false;
    int probes = 0;        // that are asked for now
    std::string probed{};  // the lowest of them

    // Where to ask next: each probe halves what is below the one before, since the names may be crowded there.
    std::string middle() const { return middle_name(at, probes > 0 ? probed : until); }
    bool can_split() const {
      return is_active && pages >= kPagesBeforeSplit && probes < kProbesAtOnce &&
             (probes == 0 || !middle().empty());
    }
  };

  void work() noexcept {
    std::unique_lock lock(mutex_);
    try {
      while (Range* range = claim(lock)) list(*range, lock);
    } catch (...) {
      if (!lock.owns_lock()) lock.lock();
      if (!error_) error_ = std::current_exception();
    }
    changed_.notify_all();
  }

  // A range that no thread works on, or a part of another one's; null: all are found.
  Range* claim(std::unique_lock<std::mutex>& lock) {
    for (;;) {
      if (error_) return nullptr;
      if (!waiting_.empty()) {
        Range* out = waiting_.back();
        waiting_.pop_back();
        out->is_active = true;
        return out;
      }
      const auto is_active = [](const Range& range) { return range.is_active; };
      if (std::none_of(ranges_.begin(), ranges_.end(), is_active)) return nullptr;
      const auto victim = std::ranges::find_if(ranges_, &Range::can_split);
      if (victim == ranges_.end())
        changed_.wait(lock);
      else
        split(*victim, lock);
    }
  }

  void split(Range& range, std::unique_lock<std::mutex>& lock) {
    const std::string middle = range.middle();
    if (middle.empty()) {
      range.pages = 0;
      return;
    }
    ++range.probes;
    range.probed = middle;
    lock.unlock();
    const std::vector<Listed> behind = page_(middle, 1);
    lock.lock();
    --range.probes;
    changed_.notify_all();
    if (!range.is_active || range.at >= middle || (!range.until.empty() && range.until <= middle)) return;
    const bool is_empty = behind.empty() || (!range.until.empty() && behind.front().name > range.until);
    if (!is_empty) {
      ranges_.push_back({.at = middle, .until = range.until});
      waiting_.push_back(&ranges_.back());
      range.pages = 0;
    }
    range.until = middle;  // if it is empty, the search for the end of the names goes on
  }

  void list(Range& range, std::unique_lock<std::mutex>& lock) {
    for (bool is_over = false; !is_over && !error_;) {
      const std::string after = range.at;
      lock.unlock();
      std::vector<Listed> page = page_(after, page_size_);
      lock.lock();
      const bool is_last = page.size() < page_size_;
      if (!page.empty()) range.at = page.back().name;
      // The end may have been cut since the page was asked for.
      is_over = is_last || (!range.until.empty() && range.at >= range.until);
      const auto is_behind = [&](const Listed& file) { return file.name > range.until; };
      if (!range.until.empty()) std::erase_if(page, is_behind);
      ++range.pages;
      changed_.notify_all();
      lock.unlock();
      take(page);
      lock.lock();
    }
    range.is_active = false;
    changed_.notify_all();
  }

  void take(const std::vector<Listed>& files) {
    const std::lock_guard lock(taking_);
    take_(files);
  }

  const PageOfFiles& page_;
  const uint64_t page_size_;
  const TakeFiles& take_;
  std::mutex taking_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Range> ranges_;  // in which a range keeps its address
  std::vector<Range*> waiting_;
  std::exception_ptr error_;
};

int32_t take_file(void* user, const kinora_entry* e) {
  return guard([&] {
    static_cast<std::vector<Listed>*>(user)->push_back(
        {std::string(view(e->name)), false, e->size, e->modified});
  });
}

}  // namespace

void list_in_ranges(const PageOfFiles& page, uint64_t page_size, int threads, const TakeFiles& take) {
  RangesOfFiles(page, page_size, take).run(threads);
}

bool list_flat(Io& io, const std::string& folder, const TakeFiles& take) {
  const auto uri = or_throw(parse_uri(folder));
  const auto store = or_throw(io.store(uri.scheme));
  const kinora_storage* table = store->table;
  if (!KINORA_HAS(table, list_from) || !table->list_from) return false;
  const auto page = [&](const std::string& after, uint64_t most) {
    if (cancelled()) throw Error(KINORA_ERROR_CANCELLED, "cancelled");
    std::vector<Listed> out;
    or_throw(
        from_abi(table->list_from(store->self, str(uri.path), str(after), most, &out, take_file), folder));
    return out;
  };
  try {
    list_in_ranges(page, kPageOfFiles, kPagesAtOnce, take);
    return true;
  } catch (const Error& e) {
    if (e.code() == KINORA_ERROR_DATA || e.code() == KINORA_ERROR_UNSUPPORTED) return false;
    throw;
  }
}

}  // namespace kinora::core
