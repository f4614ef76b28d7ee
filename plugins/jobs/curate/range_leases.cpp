#include "plugins/jobs/curate/range_leases.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/facts.hpp"
#include "core/base/log.hpp"
#include "kinora/error.hpp"

namespace kinora::core {
namespace {

using nlohmann::json;
constexpr int64_t kLeaseVersion = 1;
// The least that is worth a lease of its own: a new one starts the stages again, which may load weights.
constexpr uint64_t kLeastCut = 4, kLeastPartOfLease = 16;
constexpr uint64_t kLongestTerm = 1'000'000'000;  // ms

constexpr std::pair<RangeLease::State, const char*> kStates[] = {
    {RangeLease::State::held, "held"}, {RangeLease::State::free, "free"}, {RangeLease::State::done, "done"}};

std::optional<uint64_t> whole_in(const json& of, const char* name) {
  const auto at = of.find(name);
  if (at == of.end() || !at->is_number_unsigned()) return std::nullopt;
  return at->get<uint64_t>();
}

uint64_t left_in(const RangeLease& lease) {
  return lease.end - std::clamp(lease.begun, lease.first, lease.end);
}

}  // namespace

std::string RangeLease::text() const {
  std::string name;
  for (const auto& [one, called] : kStates)
    if (one == state) name = called;
  const json out{{"v", kLeaseVersion}, {"first", first}, {"end", end},
                 {"begun", begun},     {"owner", owner}, {"term_ms", term.count()},
                 {"epoch", epoch},     {"beat", beat},   {"state", name}};
  return out.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

RangeLease RangeLease::read(const std::string& text, const std::string& name, uint64_t first,
                            uint64_t bound) {
  const json all = json::parse(text, nullptr, false);
  const auto wrong = [&](const char* what) {
    return Error(
        KINORA_ERROR_DATA,
        fmt::format("{}: it is not the lease of a range of inputs ({}); another program has written it, or "
                    "another Kinora: remove it, and its range is done again",
                    name, what));
  };
  if (!all.is_object()) throw wrong("no JSON object");
  if (whole_in(all, "v") != uint64_t{kLeaseVersion}) throw wrong("another version");
  const auto epoch = whole_in(all, "epoch"), beat = whole_in(all, "beat"), end = whole_in(all, "end");
  if (!epoch || *epoch < 1 || *epoch > INT64_MAX / 2 || !beat || *beat > INT64_MAX / 2)
    throw wrong("epoch and beat");
  if (whole_in(all, "first") != first || !end || *end <= first || *end > bound) throw wrong("first and end");
  RangeLease out{.first = first, .end = *end, .begun = whole_in(all, "begun").value_or(first)};
  out.owner = text_in(all, "owner");
  out.term = std::chrono::milliseconds(std::min(whole_in(all, "term_ms").value_or(0), kLongestTerm));
  out.epoch = static_cast<int64_t>(*epoch);
  out.beat = static_cast<int64_t>(*beat);
  const std::string state = text_in(all, "state");
  const auto is_it = [&](const auto& one) { return state == one.second; };
  const auto* const found = std::find_if(std::begin(kStates), std::end(kStates), is_it);
  if (found == std::end(kStates)) throw wrong("state");
  out.state = found->first;
  return out;
}

std::string RangeLease::part() const { return fmt::format("{:012}.{}", first, epoch); }

std::string RangeLease::sign() const {
  return fmt::format("{} {} {} {}", owner, epoch, beat, static_cast<int>(state));
}

void require_conditions(LeaseStore& store, const std::string& owner) {
  const std::string name = "probe-" + owner + ".json";
  const auto refused = [&](const char* what) {
    return Error(
        KINORA_ERROR_UNSUPPORTED,
        fmt::format("processes cannot share work in this storage: {}. Use a disk or a server with "
                    "conditional writes (S3: If-None-Match and If-Match), or set lease = 0 and run one "
                    "process",
                    what));
  };
  const auto first = store.put(name, "{\"probe\":1}\n", "");
  if (!first) throw Error(KINORA_ERROR_FAILED, name + " exists already; run again");
  if (store.put(name, "{\"probe\":2}\n", "")) throw refused("it creates an object that exists");
  const auto second = store.put(name, "{\"probe\":3}\n", *first);
  if (!second) throw refused("it does not replace an object whose tag is the expected one");
  if (store.put(name, "{\"probe\":4}\n", *first)) throw refused("it replaces an object by an old tag");
  const auto now = store.read(name);
  if (!now || now->bytes != "{\"probe\":3}\n" || now->tag != *second)
    throw refused("it does not read what was written last");
  store.remove(name, *second);
}

std::string RangeLeases::name_of(uint64_t first) { return fmt::format("{:012}.json", first); }

uint64_t RangeLeases::bound_of(uint64_t first) const {
  return std::min(options_.inputs, (first / options_.per_lease + 1) * options_.per_lease);
}

uint64_t RangeLeases::least_cut() const {
  return std::max(kLeastCut, std::min(options_.per_lease, options_.inputs) / kLeastPartOfLease);
}

std::optional<HeldRange> RangeLeases::take() {
  if (longest_) cut_longest();
  are_all_done_ = true;
  const uint64_t cuts = (options_.inputs + options_.per_lease - 1) / options_.per_lease;
  const uint64_t own = cuts == 0 ? 0 : std::hash<std::string>()(options_.owner) % cuts;
  for (uint64_t i = 0; i < cuts; ++i) {
    const uint64_t from = (own + i) % cuts * options_.per_lease;
    try {
      auto held = take_between(from, bound_of(from));
      if (held) longest_.reset();  // what was seen is old when this range is done
      if (held) return held;
    } catch (const Error& e) {
      if (e.code() != KINORA_ERROR_IO) throw;
      are_all_done_ = false;  // the network, or a process that stands still with a lock: looked at again
      log_line(KINORA_LOG_DEBUG, e.what());
    }
  }
  return std::nullopt;
}

std::optional<HeldRange> RangeLeases::take_between(uint64_t from, uint64_t bound) {
  while (from < bound) {
    if (const auto done = done_.find(from); done != done_.end()) {
      from = done->second;
      continue;
    }
    const std::string name = name_of(from);
    const auto found = store_.read(name);
    if (!found) {
      HeldRange made{
          {.first = from, .end = bound, .begun = from, .owner = options_.owner, .term = options_.term}, ""};
      if (auto tag = store_.put(name, made.lease.text(), "")) {
        made.tag = std::move(*tag);
        are_all_done_ = false;
        return made;
      }
      continue;  // another process was faster: it is read next
    }
    const RangeLease lease = RangeLease::read(found->bytes, name, from, bound);
    from = lease.end;
    if (lease.state == RangeLease::State::done) {
      done_[lease.first] = lease.end;
      continue;
    }
    are_all_done_ = false;
    if (lease.state == RangeLease::State::free || is_stale(lease)) {
      if (auto held = take_over(*found, lease)) return held;
    } else if (left_in(lease) >= least_cut() && (!longest_ || left_in(lease) > left_in(longest_->lease))) {
      longest_ = HeldRange{lease, found->tag};
    }
  }
  return std::nullopt;
}

std::optional<HeldRange> RangeLeases::take_over(const LeaseStore::Object& found,
                                                const RangeLease& before) const {
  HeldRange taken{before, ""};
  taken.lease.owner = options_.owner;
  taken.lease.term = options_.term;
  taken.lease.begun = before.first;
  taken.lease.epoch = before.epoch + 1;
  taken.lease.beat = 0;
  taken.lease.state = RangeLease::State::held;
  auto tag = store_.put(name_of(before.first), taken.lease.text(), found.tag);
  if (!tag) return std::nullopt;
  taken.tag = std::move(*tag);
  if (before.state == RangeLease::State::held)
    log_warn("inputs {} to {}: {} shows no life; this process takes them over", before.first, before.end - 1,
             before.owner);
  return taken;
}

bool RangeLeases::is_stale(const RangeLease& lease) {
  const auto now = options_.now();
  const std::string sign = lease.sign();
  Seen& seen = seen_[lease.first];
  if (seen.sign != sign) {
    seen = {sign, now};
    return false;
  }
  return now - seen.since > kTermsUntilStale * options_.term;
}

// Takes inputs that another process has not begun out of its lease. They belong to no lease until this process, or any
// other, takes them like a range that no one has had; the owner sees its new end at its next beat.
void RangeLeases::cut_longest() {
  HeldRange other = *std::exchange(longest_, std::nullopt);
  RangeLease& lease = other.lease;
  lease.end -= left_in(lease) / 2;
  try {
    store_.put(name_of(lease.first), lease.text(), other.tag);
  } catch (const Error& e) {
    if (e.code() != KINORA_ERROR_IO) throw;
    log_line(KINORA_LOG_DEBUG, e.what());
  }
}

void RangeLeases::each_done(const std::function<void(const RangeLease&)>& f) {
  for (uint64_t from = 0; from < options_.inputs;) {
    const std::string name = name_of(from);
    const auto found = store_.read(name);
    if (!found) {
      from = bound_of(from);
      continue;
    }
    const RangeLease lease = RangeLease::read(found->bytes, name, from, bound_of(from));
    if (lease.state == RangeLease::State::done) f(lease);
    from = lease.end;
  }
}

// A refused write of one's own lease means that its end was cut, or that another process has it.
bool RangeLeases::write(HeldRange& held, const std::function<void(RangeLease&)>& change) const {
  const std::string name = name_of(held.lease.first);
  for (;;) {
    RangeLease next = held.lease;
    change(next);
    if (auto tag = store_.put(name, next.text(), held.tag)) {
      held = {std::move(next), std::move(*tag)};
      return true;
    }
    const auto found = store_.read(name);
    if (!found) return false;
    RangeLease now = RangeLease::read(found->bytes, name, held.lease.first, bound_of(held.lease.first));
    if (found->bytes == next.text()) {  // an earlier try has written it
      held = {std::move(next), found->tag};
      return true;
    }
    if (now.owner != held.lease.owner || now.epoch != held.lease.epoch ||
        now.state != RangeLease::State::held)
      return false;
    held = {std::move(now), found->tag};
  }
}

bool RangeLeases::renew(HeldRange& held, uint64_t begun) const {
  return write(held, [&](RangeLease& lease) {
    ++lease.beat;
    lease.begun = begun;
  });
}

bool RangeLeases::finish(HeldRange& held) const {
  return write(held, [](RangeLease& lease) { lease.state = RangeLease::State::done; });
}

void RangeLeases::give_back(HeldRange& held) const {
  write(held, [](RangeLease& lease) { lease.state = RangeLease::State::free; });
}

}  // namespace kinora::core
