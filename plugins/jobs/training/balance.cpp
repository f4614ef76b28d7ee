#include "plugins/jobs/training/balance.hpp"

#include <algorithm>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "core/base/log.hpp"
#include "core/base/quantity.hpp"
#include "core/torch/ranks/meeting.hpp"
#include "core/torch/ranks/traffic.hpp"

namespace kinora::core {
namespace {

using Clock = std::chrono::steady_clock;
using nlohmann::json;

constexpr double kSlow = 2;        // multiples of the median
constexpr double kNotable = 0.05;  // seconds; smaller differences are normal on any machine

struct Column {
  const char* name;
  double RankWork::*value;
  bool whole;  // true: an integer count
};
constexpr Column kColumns[] = {{"steps", &RankWork::steps, true},
                               {"tokens", &RankWork::tokens, true},
                               {"loss_tokens", &RankWork::loss_tokens, true},
                               {"encoded", &RankWork::encoded, true},
                               {"bytes_sent", &RankWork::sent, true},
                               {"bytes_received", &RankWork::received, true},
                               {"computing_seconds", &RankWork::computing, false},
                               {"waiting_seconds", &RankWork::waiting, false},
                               {"data_bytes", &RankWork::data_bytes, true}};

void add(RankWork& to, const RankWork& work) {
  for (const auto& c : kColumns) to.*c.value += work.*c.value;
}

double middle_value(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

}  // namespace

// Compares seconds of computing per step with the median of the other ranks; a rank is not compared with
// itself, or of two ranks neither could be twice the median. Both bounds must be exceeded: the factor alone
// would name ranks whose steps take microseconds.
std::vector<std::pair<size_t, std::string>> slow_ranks(const std::vector<RankWork>& ranks) {
  std::vector<std::pair<size_t, std::string>> out;
  for (size_t r = 0; ranks.size() > 1 && r < ranks.size(); ++r) {
    std::vector<double> others;
    for (size_t o = 0; o < ranks.size(); ++o)
      if (o != r) others.push_back(ranks[o].computing / std::max(1.0, ranks[o].steps));
    const double usual = middle_value(others), mine = ranks[r].computing / std::max(1.0, ranks[r].steps);
    if (mine < kSlow * usual || (mine - usual) * ranks[r].steps < kNotable) continue;
    out.emplace_back(
        r, fmt::format("rank {} is {:.1f}x slower than the median of the others: {:.3g} s of computing "
                       "per step against {:.3g} s",
                       r, mine / std::max(usual, 1e-9), mine, usual));
  }
  return out;
}

json to_json(const std::vector<RankWork>& ranks) {
  json out = json::object();
  for (const auto& c : kColumns) {
    json& values = out[c.name] = json::array();
    for (const auto& rank : ranks)
      values.push_back(c.whole ? json(static_cast<int64_t>(rank.*c.value)) : json(rank.*c.value));
  }
  return out;
}

std::vector<std::string> table_of(const std::vector<RankWork>& ranks) {
  std::vector<std::string> out{fmt::format("{:>5} {:>12} {:>12} {:>9} {:>12} {:>12} {:>11} {:>10}", "rank",
                                           "tokens", "loss tokens", "encoded", "sent", "received",
                                           "computing", "waiting")};
  const auto size = [](double bytes) { return format_size(static_cast<uint64_t>(bytes)); };
  for (size_t r = 0; r < ranks.size(); ++r) {
    const RankWork& w = ranks[r];
    out.push_back(fmt::format("{:>5} {:>12.0f} {:>12.0f} {:>9.0f} {:>12} {:>12} {:>9.2f} s {:>8.2f} s", r,
                              w.tokens, w.loss_tokens, w.encoded, size(w.sent), size(w.received), w.computing,
                              w.waiting));
  }
  return out;
}

void Balance::begin_step() {
  begin_ = Clock::now();
  waited_ = parallel_.traffic().total().waited;
}

void Balance::end_step(double tokens, double loss_tokens, double encoded, double data_bytes) {
  const double seconds = std::chrono::duration<double>(Clock::now() - begin_).count();
  const double waiting = parallel_.traffic().total().waited - waited_;
  add(since_, {1, tokens, loss_tokens, encoded, 0, 0, std::max(0.0, seconds - waiting), waiting, data_bytes});
}

// Returns the work of all ranks in the order of the ranks; all ranks must call it together. Integers are
// exact as doubles below 2^53.
std::vector<RankWork> Balance::gather(const RankWork& mine) const {
  std::vector<double> row;
  for (const auto& c : kColumns) row.push_back(mine.*c.value);
  const at::Tensor rows = gather_rows(parallel_.group("world"), row);
  std::vector<RankWork> out(static_cast<size_t>(rows.size(0)));
  const double* value = rows.data_ptr<double>();
  for (auto& rank : out)
    for (const auto& c : kColumns) rank.*c.value = *value++;
  return out;
}

void Balance::log(const std::string& job, json& line) {
  const TrafficRow total = parallel_.traffic().total();
  // The mesh counts bytes from the beginning of the run; a line reports those since the line before.
  since_.sent = static_cast<double>(total.sent) - sent_;
  since_.received = static_cast<double>(total.received) - received_;
  sent_ += since_.sent;
  received_ += since_.received;
  add(all_, since_);
  const auto ranks = gather(std::exchange(since_, {}));
  data_bytes_ = 0;
  for (const auto& rank : ranks) data_bytes_ += rank.data_bytes;
  if (parallel_.world() == 1) return;
  line["ranks"] = to_json(ranks);
  std::set<size_t> slow;
  // Every rank computes the same set, and a rank that stays slow is named once.
  for (const auto& [rank, text] : slow_ranks(ranks)) {
    if (!slow_.contains(rank) && parallel_.rank() == 0) log_warn("{}: {}", job, text);
    slow.insert(rank);
  }
  slow_ = std::move(slow);
}

void Balance::finish(const std::string& job) {
  if (parallel_.world() == 1) return;
  add(all_, since_);
  const Traffic::Rows rows = parallel_.traffic().rows();
  const TrafficRow total = parallel_.traffic().total();
  all_.sent = static_cast<double>(total.sent);
  all_.received = static_cast<double>(total.received);
  json mine = json::array();
  for (const auto& [key, row] : rows)
    mine.push_back({{"rank", parallel_.rank()},
                    {"group", key.first},
                    {"operation", key.second},
                    {"transfers", row.transfers},
                    {"sent", row.sent},
                    {"received", row.received},
                    {"waited", row.waited}});
  const auto ranks = gather(all_);
  summary_ = {{"ranks", to_json(ranks)}, {"transfers", json::array()}};
  for (const auto& of_rank : Exchange(parallel_.group("world")).gather(mine.dump()))
    for (auto& row : json::parse(of_rank)) summary_["transfers"].push_back(row);
  if (parallel_.rank() != 0) return;
  log_info("{}: work of each rank:", job);
  for (const auto& text : table_of(ranks)) log_info("{}", text);
}

}  // namespace kinora::core
