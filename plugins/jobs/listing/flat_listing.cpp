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

namespace kinora::core {
namespace {

constexpr int kPagesAtOnce = 32;
constexpr uint64_t kPageOfFiles = 1000;  // what S3 gives at most
constexpr int kPagesBeforeSplit = 4;     // of a range, so that not every small rest is halved again
constexpr unsigned kLeastLetter = 0x20, kLetters = 95;
constexpr size_t kLettersOfMiddle = 8;  // 95^8 fits into 64 bits

// A name between two others, by printable ASCII letters alone; empty high: no end. Empty: there is none.
std::string middle_of(const std::string& low, const std::string& high) {
  size_t common = 0;
  while (common < std::min(low.size(), high.size()) && low[common] == high[common]) ++common;
  while (common > 0 && common < low.size() && (static_cast<unsigned char>(low[common]) & 0xC0) == 0x80)
    --common;  // not within a letter of UTF-8
  const auto letter = [](const std::string& name, size_t at) -> uint64_t {
    if (at >= name.size()) return 0;
    return std::clamp<unsigned>(static_cast<unsigned char>(name[at]), kLeastLetter,
                                kLeastLetter + kLetters - 1) -
           kLeastLetter;
  };
  uint64_t from = 0, to = 0;
  for (size_t i = common; i < common + kLettersOfMiddle; ++i) {
    from = from * kLetters + letter(low, i);
    to = to * kLetters + (high.empty() ? kLetters - 1 : letter(high, i));
  }
  if (to <= from) return "";
  uint64_t middle = from + (to - from) / 2;
  std::string end(kLettersOfMiddle, ' ');
  for (size_t i = kLettersOfMiddle; i-- > 0; middle /= kLetters)
    end[i] = static_cast<char>(kLeastLetter + middle % kLetters);
  std::string out = low.substr(0, common) + end;
  return low < out && (high.empty() || out < high) ? out : "";
}

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
    bool is_active = false, is_splitting = false;
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
      const auto can_split = [](const Range& range) {
        return range.is_active && !range.is_splitting && range.pages >= kPagesBeforeSplit;
      };
      const auto victim = std::find_if(ranges_.begin(), ranges_.end(), can_split);
      if (victim == ranges_.end())
        changed_.wait(lock);
      else
        split(*victim, lock);
    }
  }

  void split(Range& range, std::unique_lock<std::mutex>& lock) {
    const std::string middle = middle_of(range.at, range.until);
    if (middle.empty()) {
      range.pages = 0;
      return;
    }
    range.is_splitting = true;
    lock.unlock();
    const std::vector<Listed> behind = page_(middle, 1);
    lock.lock();
    range.is_splitting = false;
    if (!range.is_active || range.at >= middle) return;
    const bool is_empty = behind.empty() || (!range.until.empty() && behind.front().name > range.until);
    if (!is_empty) {
      ranges_.push_back({.at = middle, .until = range.until});
      waiting_.push_back(&ranges_.back());
      range.pages = 0;
    }
    range.until = middle;  // if it is empty, the search for the end of the names goes on
    changed_.notify_all();
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
