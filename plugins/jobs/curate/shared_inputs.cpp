#include "plugins/jobs/curate/shared_inputs.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <random>
#include <thread>
#include <unistd.h>

#include <fmt/format.h>

#include "core/base/cancel.hpp"
#include "core/base/log.hpp"
#include "core/base/quantity.hpp"
#include "core/run/job_results.hpp"
#include "kinora/error.hpp"
#include "plugins/jobs/curate/curate_work.hpp"
#include "plugins/jobs/curate/lease_store.hpp"
#include "plugins/jobs/curate/remote_parts.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

constexpr const char *kPlan = "plan.json", *kAnswers = "answers";
constexpr milliseconds kLongestLook(1000), kShortestLook(20);  // between two looks at the leases of others
constexpr milliseconds kShortestTerm(100);
constexpr size_t kDigestDigits = 16;

fs::path folder_of_parts(const JobView& job, const JobIdentity& identity) {
  return job.shared_folder() / identity.digest.substr(0, kDigestDigits);
}

std::unique_ptr<LeaseStore> leases_in(const JobView& job, const fs::path& folder) {
  return lease_store(or_throw(job.runtime().io().store("file")), folder.string());
}

std::unique_ptr<LeaseStore> leases_at(const JobView& job, const std::string& uri) {
  const Uri at = or_throw(parse_uri(uri));
  return lease_store(or_throw(job.runtime().io().store(at.scheme)), at.path);
}

// The job's folder below the option lease_at, without a slash at its end; empty: the option is.
std::string remote_folder(const JobView& job, const std::string& lease_at, const JobIdentity& identity) {
  if (lease_at.empty()) return "";
  return fmt::format("{}{}{}/{}", lease_at, lease_at.ends_with('/') ? "" : "/", job.spec().name,
                     identity.digest.substr(0, kDigestDigits));
}

std::string new_owner() {
  char host[256] = {};
  ::gethostname(host, sizeof host - 1);
  std::random_device device;
  return fmt::format("{}-{}-{:08x}{:08x}", host, ::getpid(), device(), device());
}

// The number of inputs of a lease, which the first process has chosen for all. 0: there is no plan for these inputs.
uint64_t planned(LeaseStore& store, uint64_t inputs) {
  const auto found = store.read(kPlan);
  if (!found) return 0;
  const json plan = json::parse(found->bytes, nullptr, false);
  const bool is_one = plan.is_object() && plan.value("v", json()) == 1 &&
                      plan.value("inputs", json()) == inputs &&
                      plan.value("per_lease", json()).is_number_unsigned();
  return is_one ? plan["per_lease"].get<uint64_t>() : 0;
}

// Renews a lease while its range is worked on.
class Renewal {
 public:
  Renewal(const RangeLeases& leases, HeldRange& held, milliseconds term)
      : leases_(leases), held_(held), term_(term), begun_(held.lease.first), end_(held.lease.end) {
    thread_ = std::thread([this] { beat(); });
  }
  Renewal(const Renewal&) = delete;
  Renewal& operator=(const Renewal&) = delete;
  ~Renewal() { end(); }

  // Ends the beats; then the lease is the caller's.
  void end() {
    {
      const std::lock_guard lock(mutex_);
      is_over_ = true;
    }
    over_.notify_all();
    if (thread_.joinable()) thread_.join();
  }
  // [any-thread] Whether this input is still this process's.
  bool may_begin(uint64_t input) {
    begun_ = input + 1;
    return !is_lost_ && input < end_;
  }
  bool is_lost() const { return is_lost_; }

 private:
  void beat() {
    std::unique_lock lock(mutex_);
    while (!over_.wait_for(lock, term_ / 3, [&] { return is_over_; })) {
      try {
        if (!leases_.renew(held_, begun_)) is_lost_ = true;
        end_ = held_.lease.end;
      } catch (const std::exception& e) {  // the lease may still be in time with the next beat
        log_line(KINORA_LOG_DEBUG, e.what());
      }
      if (is_lost_) return;
    }
  }

  const RangeLeases& leases_;
  HeldRange& held_;
  const milliseconds term_;
  std::atomic<uint64_t> begun_, end_;
  std::atomic<bool> is_lost_ = false;
  std::mutex mutex_;
  std::condition_variable over_;
  bool is_over_ = false;
  std::thread thread_;
};

class SharedInputs {
 public:
  SharedInputs(JobContext& context, const CurateOptions& options, const InputRows& inputs,
               const std::vector<bool>& begun)
      : context_(context),
        options_(options),
        inputs_(inputs),
        begun_(begun),
        folder_(folder_of_parts(context, context.identity())),
        remote_(remote_folder(context, options.lease_at, context.identity())),
        term_(std::max(kShortestTerm, milliseconds(static_cast<int64_t>(options.lease * 1000)))),
        owner_(new_owner()),
        store_(leases_at(context, place() + "/leases")) {}

  bool run() {
    const std::string& name = context_.spec().name;
    if (!remote_.empty() && fs::exists(folder_ / "leases" / kPlan)) return true;  // it has fetched all
    require_conditions(*store_, owner_);
    RangeLeases leases(*store_,
                       {.owner = owner_, .inputs = inputs_.size(), .per_lease = plan(), .term = term_});
    bool has_said = false;
    while (!cancelled() && !is_over()) {
      auto held = leases.take();
      if (!held && leases.are_all_done()) break;
      if (held) {
        work_on(leases, *held);
        continue;
      }
      if (!std::exchange(has_said, true))
        log_info("{}: waiting for the inputs that other processes have", name);
      std::this_thread::sleep_for(look());
    }
    if (cancelled()) throw Error(KINORA_ERROR_CANCELLED, "cancelled");
    log_info("{}: all {} done; {} in {} by this process", name,
             counted(inputs_.size(), "input is", "inputs are"), done_, counted(ranges_, "range", "ranges"));
    return remote_.empty() || fetch(leases);
  }

 private:
  // Where the leases and what is done are.
  std::string place() const { return remote_.empty() ? folder_.string() : remote_; }
  milliseconds look() const { return std::clamp(term_ / 10, kShortestLook, kLongestLook); }
  uint64_t plan() {
    const json mine{{"v", 1}, {"inputs", inputs_.size()}, {"per_lease", options_.lease_inputs}};
    store_->put(kPlan, mine.dump() + "\n", "");
    const uint64_t out = planned(*store_, inputs_.size());
    if (out > 0) return out;
    throw Error(KINORA_ERROR_DATA,
                fmt::format("{0}/leases/{1}: it is no plan for these inputs; remove {0} when no "
                            "process works there",
                            place(), kPlan));
  }
  // Another process has run the job, and then removed what was shared.
  bool is_over() {
    if (finished(context_.folder_of(context_.spec()), context_.identity().digest)) return true;
    try {
      return !store_->read(kPlan);
    } catch (const Error& e) {
      if (e.code() != KINORA_ERROR_IO) throw;
      return false;
    }
  }

  void work_on(const RangeLeases& leases, HeldRange& held) {
    const RangeLease lease = held.lease;  // a beat may change the held one
    const fs::path part = folder_ / "parts" / lease.part();
    bool is_lost = false;
    try {
      Renewal renewal(leases, held, term_);
      work_in(part, lease, renewal);
      if (!remote_.empty() && !renewal.is_lost()) upload_part(folder_, remote_, lease);
      renewal.end();
      is_lost = renewal.is_lost();
    } catch (const std::exception& e) {
      // A process that stood still may find that the others have ended the job, and removed the folder.
      if (cancelled() || !is_over()) {
        give_back(leases, held);
        throw;
      }
      log_line(KINORA_LOG_DEBUG, e.what());
      is_lost = true;
    }
    if (!is_lost && finish(leases, held)) {
      done_ += static_cast<int64_t>(held.lease.end - held.lease.first), ++ranges_;
      return;
    }
    log_warn("{}: another process has taken over the inputs {} to {}", context_.spec().name, lease.first,
             lease.end - 1);
    std::error_code ignored;
    fs::remove_all(part, ignored);
  }

  // The record is closed afterwards, so that other machines can read it.
  void work_in(const fs::path& folder, const RangeLease& lease, Renewal& renewal) {
    InputRows inputs;
    std::vector<uint64_t> places;
    for (uint64_t i = lease.first; i < lease.end; ++i)
      if (!begun_[i]) inputs.add(inputs_[i]), places.push_back(i);
    fs::remove_all(folder);  // of a lease that the user has removed
    fs::create_directories(folder / "data");
    JobContext part(context_.runtime(), context_.run(), context_.spec(), true, context_.identity(), folder);
    fs::create_directories(folder_ / kAnswers);
    fs::create_directory_symlink(folder_ / kAnswers, folder / kAnswers);
    Record record(folder, inputs, {.base = context_.identity().base, .named = true});
    run_stages(part, options_, inputs, record, [&](size_t at) { return renewal.may_begin(places[at]); });
    clear_work(part);
  }

  // Copies all parts to this process's folder, unless another process does: false.
  bool fetch(RangeLeases& done) {
    const auto store = leases_at(context_, remote_ + "/taker");
    RangeLeases leases(*store, {.owner = owner_, .inputs = 1, .per_lease = 1, .term = term_});
    for (; !cancelled(); std::this_thread::sleep_for(look())) {
      auto held = leases.take();
      if (!held && leases.are_all_done()) return false;
      if (held && fetch_by(leases, *held, done)) return true;
    }
    throw Error(KINORA_ERROR_CANCELLED, "cancelled");
  }

  // False: the lease was lost meanwhile.
  bool fetch_by(const RangeLeases& leases, HeldRange& held, RangeLeases& done) {
    const auto copies = leases_in(context_, folder_ / "leases");
    const auto plan = store_->read(kPlan);
    if (!plan)
      throw Error(KINORA_ERROR_NOT_FOUND, place() + ": the leases were removed while processes share them");
    log_info("{}: copying all that is done from {}", context_.spec().name, place());
    try {
      Renewal renewal(leases, held, term_);
      done.each_done([&](const RangeLease& lease) {
        fetch_part(remote_, folder_, lease);
        copies->put(RangeLeases::name_of(lease.first), lease.text(), "");
      });
      renewal.end();
      if (renewal.is_lost()) return false;
      // Last: with the plan this process, when it is killed now, goes on with the copies alone.
      copies->put(kPlan, plan->bytes, "");
      return finish(leases, held);
    } catch (const std::exception&) {
      give_back(leases, held);
      throw;
    }
  }

  // Tries as long as the lease is this process's for certain.
  bool finish(const RangeLeases& leases, HeldRange& held) const {
    for (const auto end = std::chrono::steady_clock::now() + term_;;) {
      try {
        return leases.finish(held);
      } catch (const Error& e) {
        if (e.code() != KINORA_ERROR_IO || std::chrono::steady_clock::now() > end || cancelled()) throw;
      }
      std::this_thread::sleep_for(kShortestLook);
    }
  }
  static void give_back(const RangeLeases& leases, HeldRange& held) {
    try {
      leases.give_back(held);
    } catch (const Error& e) {
      log_line(KINORA_LOG_DEBUG, e.what());  // it becomes stale
    }
  }

  JobContext& context_;
  const CurateOptions& options_;
  const InputRows& inputs_;
  const std::vector<bool>& begun_;
  const fs::path folder_;
  const std::string remote_;  // URI; empty: the folder has it all
  const milliseconds term_;
  const std::string owner_;
  const std::unique_ptr<LeaseStore> store_;
  int64_t done_ = 0, ranges_ = 0;
};

// Returns the number of inputs that were taken.
int64_t adopt_part(const fs::path& part, const std::vector<std::string>& keys, Record& record) {
  try {
    return record.adopt(part, keys);
  } catch (const Error& e) {
    if (e.code() == KINORA_ERROR_IO || e.code() == KINORA_ERROR_NO_MEMORY) throw;
    log_warn("{}; its inputs are done again", e.what());
    return 0;
  }
}

}  // namespace

bool share_inputs(JobContext& context, const CurateOptions& options, const InputRows& inputs,
                  const std::vector<bool>& begun) {
  return SharedInputs(context, options, inputs, begun).run();
}

void adopt_answers(const JobContext& context) {
  const fs::path shared = folder_of_parts(context, context.identity()) / kAnswers,
                 own = context.folder() / kAnswers;
  if (fs::exists(shared) && !fs::exists(own) && !fs::exists(context.folder() / ".answers"))
    fs::rename(shared, own);
}

void adopt_parts(const JobContext& context, const InputRows& inputs, Record& record) {
  const fs::path folder = folder_of_parts(context, context.identity());
  if (!fs::exists(folder / "leases" / kPlan)) return;
  const auto store = leases_in(context, folder / "leases");
  const uint64_t per_lease = planned(*store, inputs.size());
  if (per_lease == 0) return;
  int64_t taken = 0, parts = 0;
  RangeLeases leases(*store, {.inputs = inputs.size(), .per_lease = per_lease});
  leases.each_done([&](const RangeLease& lease) {
    if (cancelled()) throw Error(KINORA_ERROR_CANCELLED, "cancelled");
    std::vector<std::string> keys;
    for (uint64_t i = lease.first; i < lease.end; ++i) keys.push_back(inputs[i].key);
    taken += adopt_part(folder / "parts" / lease.part(), keys, record);
    ++parts;
  });
  log_info("{}: {} taken over from {}", context.spec().name, counted(taken, "input is", "inputs are"),
           counted(parts, "part", "parts"));
}

}  // namespace kinora::core
