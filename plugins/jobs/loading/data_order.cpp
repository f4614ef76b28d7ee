#include "plugins/jobs/loading/data_order.hpp"

#include <cmath>
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

bool is_usable(const DataOrder::Draw& draw, const DataOrder::Use& use, std::string& why) {
  try {
    return use(draw, why);
  } catch (const Error& e) {
    if (e.code() != KINORA_ERROR_DATA) throw;
    why = e.what();
    return false;
  }
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
  // In the same epoch, so that its order of the shards is at hand.
  const uint64_t epoch = unusable.n / order.size(),
                 drawn = (uint64_t{bits[1]} << 32 | bits[0]) % order.size();
  return {unusable.set, order.at(epoch * order.size() + drawn), unusable.n};
}

std::string DataOrder::text_of(const Draw& draw) const { return sets_[draw.set]->text_of(draw.place); }

void DataOrder::find_usable(uint64_t slot, const Use& use, FailedSamples* failed) const {
  constexpr uint64_t kMost = 1000;
  const Draw first = at(slot);
  std::string why;
  for (uint64_t attempt = 0; attempt < kMost; ++attempt) {
    const Draw draw = attempt == 0 ? first : instead(first, attempt);
    why.clear();
    if (is_usable(draw, use, why)) {
      if (failed) failed->add_used(slot);
      return;
    }
    if (failed && !why.empty()) failed->add(text_of(draw), why);
  }
  throw Error(KINORA_ERROR_DATA,
              fmt::format("{}: {} samples in a row cannot be used; of the last: {}", sets_[first.set]->path(),
                          kMost, why.empty() ? "it is too short, held out or dropped" : why));
}

std::string DataOrder::key(uint64_t slot, const std::function<bool(const std::string&)>& accepts,
                           FailedSamples* failed) {
  std::string out;
  const auto use = [&](const Draw& draw, std::string&) {
    out = sets_[draw.set]->key(draw.place);
    return !accepts || accepts(out);
  };
  find_usable(slot, use, failed);
  return out;
}

}  // namespace kinora::core
