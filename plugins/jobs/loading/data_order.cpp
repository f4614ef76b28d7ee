#include "plugins/jobs/loading/data_order.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/digest.hpp"

namespace kinora::core {

namespace {

// How many slots each part of a blend has in a pass of it. sizes: slots of a pass of each part. Throws Error.
std::vector<uint64_t> slots_of_parts(const DataInput& blend, const std::vector<uint64_t>& sizes) {
  std::vector<double> weights;
  for (const auto& part : blend.parts) weights.push_back(part.weight);
  auto out = slots_of_weights(weights);
  for (size_t i = 0; i < out.size(); ++i) {
    const DataInput& part = blend.parts[i];
    const double of_pass = part.epochs * static_cast<double>(sizes[i]);
    if (part.epochs > 0) out[i] = of_pass < 0x1p48 ? static_cast<uint64_t>(std::llround(of_pass)) : 0;
    if (out[i] > 0) continue;
    const auto given = part.epochs > 0 ? fmt::format("epochs = {} of {} samples", part.epochs, sizes[i])
                                       : fmt::format("weight = {}", part.weight);
    throw Error(
        KINORA_ERROR_INVALID,
        fmt::format("part {} of the blend{}: {} {}", i + 1, part.is_blend() ? "" : ", " + part.path, given,
                    of_pass < 1 ? "gives it no sample; give it more, or remove the part"
                                : "are more than 2^48 samples a pass; give it fewer"));
  }
  return out;
}

}  // namespace

DataOrder::DataOrder(const DataInput& input, uint64_t seed) : seed_(seed) {
  const DataReading& reading = input.reading;
  if (!reading.cache.empty()) cache_ = std::make_shared<SampleCache>(reading.cache, reading.cache_limit);
  std::string identity = fmt::format("kinora.order/1 seed {}\n", seed);
  root_ = open(input, "data", identity);
  digest_ = sha256(identity);
}

DataOrder::Node DataOrder::open(const DataInput& input, const std::string& stream, std::string& identity) {
  Node out;
  if (!input.is_blend()) {
    out.set = sets_.size();
    const auto& set = *sets_.emplace_back(std::make_unique<DataSet>(input, cache_));
    out.order =
        std::make_unique<ShardOrder>(set.samples(), static_cast<uint64_t>(input.shuffle), seed_, stream);
    out.slots = set.size();
    orders_.push_back(out.order.get());
    identity += fmt::format("{}: shuffle {} of {}\n", stream, input.shuffle, set.digest());
    return out;
  }
  std::vector<uint64_t> sizes;
  for (const auto& part : input.parts)
    sizes.push_back(
        out.parts.emplace_back(open(part, fmt::format("{}/{}", stream, sizes.size()), identity)).slots);
  const auto slots = slots_of_parts(input, sizes);
  const auto& counted = input.parts.front().epochs > 0 ? slots : sizes;
  out.slots = std::accumulate(counted.begin(), counted.end(), uint64_t{0});
  identity += fmt::format("{}: slots of a pass {}\n", stream, fmt::join(slots, " "));
  out.blend = std::make_unique<BlendOrder>(slots, seed_, stream);
  return out;
}

namespace {

bool is_usable(const DataOrder::Draw& draw, const DataOrder::Use& use, Unused& unused) {
  try {
    return use(draw, unused);
  } catch (const Error& e) {
    if (e.code() != KINORA_ERROR_DATA) throw;
    unused = {.why = e.what()};
    return false;
  }
}

// "870 dropped by filter.facts, 130 damaged", the most frequent first.
std::string text_of_reasons(const std::map<std::string, int>& reasons) {
  std::vector<std::pair<int, std::string>> all;
  for (const auto& [reason, count] : reasons) all.emplace_back(-count, reason);
  std::sort(all.begin(), all.end());
  std::string out;
  for (const auto& [count, reason] : all)
    out += fmt::format("{}{} {}", out.empty() ? "" : ", ", -count, reason);
  return out;
}

}  // namespace

DataOrder::Draw DataOrder::at(uint64_t slot) const {
  const Node* node = &root_;
  while (node->blend) {
    const auto turn = node->blend->at(slot);
    node = &node->parts[turn.part];
    slot = turn.n;
  }
  return {node->set, node->order->at(slot), slot};
}

DataOrder::Draw DataOrder::instead(const Draw& unusable, uint64_t attempt) const {
  const Random random(seed_, "data/instead");
  const auto& order = *orders_[unusable.set];
  const auto bits = random.bits(unusable.n, attempt << 32 | unusable.set);
  // A sample of the same epoch, so that its order of the shards is at hand.
  const uint64_t epoch = unusable.n / order.size(),
                 drawn = (uint64_t{bits[1]} << 32 | bits[0]) % order.size();
  return {unusable.set, order.at(epoch * order.size() + drawn), unusable.n};
}

std::string DataOrder::text_of(const Draw& draw) const { return sets_[draw.set]->text_of(draw.place); }

void DataOrder::find_usable(uint64_t slot, const Use& use, LostSamples* lost) const {
  constexpr uint64_t kMost = 1000;
  const Draw first = at(slot);
  std::map<std::string, int> reasons;
  std::string damage;  // of the last damaged one
  for (uint64_t attempt = 0; attempt < kMost; ++attempt) {
    const Draw draw = attempt == 0 ? first : instead(first, attempt);
    Unused unused = {.kind = Unused::Kind::unwanted, .why = "not wanted"};
    if (is_usable(draw, use, unused)) {
      if (!lost) return;
      lost->add_used(slot);
      return count_unread(*lost);
    }
    ++reasons[unused.reason()];
    if (unused.kind == Unused::Kind::failed) damage = "; the last damaged one: " + unused.why;
    if (lost) lost->add(text_of(draw), unused);
  }
  throw Error(KINORA_ERROR_DATA,
              fmt::format("{}: {} samples in a row cannot be used: {}{}; change what leaves "
                          "them out, or give other data",
                          sets_[first.set]->path(), kMost, text_of_reasons(reasons), damage));
}

void DataOrder::count_unread(LostSamples& lost) const {
  for (const auto& set : sets_)
    for (const auto& one : set->take_unread()) lost.add_unread(one.which, one.why, set->all());
}

std::string DataOrder::key(uint64_t slot, const std::function<bool(const std::string&)>& accepts,
                           LostSamples* lost) {
  std::string out;
  const auto use = [&](const Draw& draw, Unused& unused) {
    out = sets_[draw.set]->key(draw.place);
    const bool is_accepted = !accepts || accepts(out);
    if (!is_accepted) unused = held_out();
    return is_accepted;
  };
  find_usable(slot, use, lost);
  return out;
}

}  // namespace kinora::core
